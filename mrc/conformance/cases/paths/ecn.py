# SPDX-License-Identifier: BSD-2-Clause
"""Codepoints and ECN in a network that chose its own, and on both headers of SRv6 mode (wire.md section 12)."""

from __future__ import annotations

from mrc.conformance.script import CE, ECT0, TRIM_NACK, Bench, Heard, case, ms, pattern, us, wire

# None of them is a default of the page, and no two are the same.
OWN = {
    "dscp_no_trim": 3,
    "dscp_trimmable": 17,
    "dscp_trimmable_retx": 22,
    "dscp_trimmed": 29,
    "dscp_trimmed_lasthop": 33,
    "dscp_control": 50,
}
OF_THE_PAGE = {"dscp_trimmed": 12, "dscp_trimmed_lasthop": 16}
NOT_ECT = 0


def _expect_dscp(bench: Bench, packet: Heard, switch: str) -> None:
    found, wanted = packet.dscp, OWN[switch]
    bench.check(found == wanted, f"DSCP {wanted}, which is {switch} here", f"it is {found}: {packet}")


@case("MRC-ECN-11", agreed=[TRIM_NACK], wire=OWN, look_at="codepoints that are what the page has, whatever is set")
def codepoints_of_data_are_switches(bench: Bench) -> None:
    """The network has codepoints of its own: a first transmission, a retransmission and a probe of the target's have
    them."""
    write = bench.written(0, pattern(16))
    _expect_dscp(bench, write, "dscp_trimmable")
    bench.nack(write, wire.TRIMMED)
    _expect_dscp(bench, bench.expect("WRITE", psn=0, rtx=1), "dscp_trimmable_retx")
    _expect_dscp(bench, bench.expect("PROBE", within=ms(200)), "dscp_trimmable")


@case("MRC-ECN-11/no-trim", without=[TRIM_NACK], wire=OWN, look_at="the DSCP of data that must not be trimmed")
def the_codepoint_of_data_that_is_not_trimmed_is_a_switch(bench: Bench) -> None:
    """A peer that cannot answer trims gets data with the network's own DSCP_NO_TRIM."""
    _expect_dscp(bench, bench.written(0, pattern(16)), "dscp_no_trim")


@case("MRC-ECN-11/control", wire=OWN, look_at="the DSCP of each kind of answer")
def the_codepoint_of_answers_is_a_switch(bench: Bench) -> None:
    """A SACK, an ACK, a NACK and an endpoint response have that network's DSCP_CONTROL."""
    bench.request(0, ackreq=1)
    bench.request(1 + bench.window)
    bench.endpoint_request(7)
    for kind in ("SACK", "ACK", "NACK", "ENDPOINT_RESPONSE"):
        _expect_dscp(bench, bench.expect(kind), "dscp_control")


@case("MRC-ECN-11/trimmed", agreed=[TRIM_NACK], wire=OWN, look_at="by which codepoints a trimmed packet is known")
def codepoints_of_trimmed_packets_are_switches(bench: Bench) -> None:
    """What a switch of that network trimmed is answered with TRIMMED, on the last hop with TRIMMED_LASTHOP. The same
    under the codepoints of the page, which mean nothing there, is dropped and counted."""
    reasons = ((False, wire.TRIMMED), (True, wire.TRIMMED_LASTHOP))
    for psn, (lasthop, reason) in enumerate(reasons):
        bench.send(bench.make.request(psn, pattern(bench.mtu)).trimmed(lasthop=lasthop))
        bench.expect("NACK", nack_psn=psn, reason=reason)
    bench.mark_counters()
    for psn, dscp in enumerate(OF_THE_PAGE.values()):
        bench.send(bench.make.request(psn, pattern(bench.mtu)).trimmed().but(dscp=dscp))
    bench.expect_silence(us(100))
    bench.expect_counted(2)
    bench.expect_goes_on(0)


@case("MRC-ECN-03/inner", mode="srv6", look_at="whether the inner header is looked at, the outer one being unmarked")
def ce_on_the_inner_header_counts(bench: Bench) -> None:
    """CE on the inner header alone, the outer one ECT(0) or not ECN-capable: m is 1 both times. With neither CE it is
    0, and for a probe the same holds."""
    for psn, (outer, inner, m) in enumerate(((ECT0, CE, 1), (NOT_ECT, CE, 1), (ECT0, ECT0, 0))):
        bench.request(psn, ackreq=1, outer_ecn=outer, inner_ecn=inner)
        bench.expect("SACK", ack_psn=psn, m=m)
        bench.probe(40 + psn, outer_ecn=outer, inner_ecn=inner)
        bench.expect("SACK", probe_id=40 + psn, m=m)


@case("MRC-ECN-03/outer", mode="srv6", look_at="whether the outer header is looked at, where switches mark")
def ce_on_the_outer_header_counts(bench: Bench) -> None:
    """CE on the outer header alone, as switches leave it, the inner one ECT(0) or not ECN-capable: m is 1 both times,
    for probes too."""
    for psn, inner in enumerate((ECT0, NOT_ECT)):
        bench.request(psn, ackreq=1, outer_ecn=CE, inner_ecn=inner)
        bench.expect("SACK", ack_psn=psn, m=1)
        bench.probe(50 + psn, outer_ecn=CE, inner_ecn=inner)
        bench.expect("SACK", probe_id=50 + psn, m=1)


@case("MRC-ECN-10/data", agreed=[TRIM_NACK], mode="srv6", look_at="DSCP and ECT of the inner header of data and probes")
def data_has_its_class_on_both_headers(bench: Bench) -> None:
    """A first transmission, a retransmission and a probe: DSCP_TRIMMABLE, DSCP_TRIMMABLE_RETX and DSCP_TRIMMABLE, on
    the outer and on the inner header, and data is ECT(0) on both."""
    profile = bench.profile
    first = bench.written(0, pattern(16), dscp=profile.dscp_trimmable, inner_dscp=profile.dscp_trimmable)
    bench.nack(first, wire.TRIMMED_LASTHOP)
    retx = profile.dscp_trimmable_retx
    again = bench.expect("WRITE", psn=0, rtx=1, dscp=retx, inner_dscp=retx)
    for write in (first, again):
        found = write.ecn, write.inner_ecn
        bench.check(found == (ECT0, ECT0), "ECT(0) on the outer and on the inner header", f"they are {found}: {write}")
    bench.expect("PROBE", within=ms(200), dscp=profile.dscp_trimmable, inner_dscp=profile.dscp_trimmable)


@case("MRC-ECN-10/control", mode="srv6", look_at="DSCP of the inner header of answers")
def answers_have_their_class_on_both_headers(bench: Bench) -> None:
    """A SACK, an ACK, a NACK and an endpoint response: DSCP_CONTROL on the outer and on the inner header, and the same
    ECN."""
    control = bench.profile.dscp_control
    bench.request(0, ackreq=1)
    bench.request(1 + bench.window)
    bench.endpoint_request(7)
    for kind in ("SACK", "ACK", "NACK", "ENDPOINT_RESPONSE"):
        packet = bench.expect(kind, dscp=control, inner_dscp=control)
        same = packet.ecn == packet.inner_ecn
        bench.check(same, f"ECN {packet.ecn} on the inner header too", f"it is {packet.inner_ecn}: {packet}")
