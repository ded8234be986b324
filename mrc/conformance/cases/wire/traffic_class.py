# SPDX-License-Identifier: BSD-2-Clause
"""DSCP and ECN of what the target sends, and what it makes of CE (wire.md section 12)."""

from __future__ import annotations

from mrc.conformance.script import CE, ECT0, TRIM_NACK, Bench, Heard, case, ms, pattern, wire


def _expect_codepoint(bench: Bench, packet: Heard, dscp: int) -> None:
    bench.check(packet.dscp == dscp, f"DSCP {dscp}", f"it is {packet.dscp}: {packet}")


@case("MRC-ECN-01", look_at="the ECN bits of requests, first transmissions and retransmissions")
def data_is_ect0(bench: Bench) -> None:
    """Eight requests and a retransmission are sent ECT(0)."""
    bench.post_write(pattern(8 * bench.mtu))
    writes = [bench.expect("WRITE", psn=psn, ecn=ECT0) for psn in range(8)]
    bench.nack(writes[3], wire.TRIMMED_LASTHOP)
    bench.expect("WRITE", psn=3, rtx=1, ecn=ECT0)


@case("MRC-ECN-02", look_at="m of the SACK for a request that came CE, and which EV it names")
def ce_is_answered_with_m_1(bench: Bench) -> None:
    """Requests on four EVs; the third came CE: the SACK for that one alone has m=1, and names its EV."""
    evs = [ev for plane in bench.planes for ev in plane.evs][:4]
    for psn, ev in enumerate(evs):
        bench.request(psn, ev=ev, ackreq=1, ce=psn == 2)
        bench.expect("SACK", ack_psn=psn, m=int(psn == 2), entropy=ev)


@case("MRC-ECN-03", mode="srv6", look_at="on which of the two headers CE is looked for")
def ce_counts_on_either_header(bench: Bench) -> None:
    """CE on the outer header alone, on the inner one alone, and on neither: m is 1, 1 and 0."""
    for psn, (outer, inner, m) in enumerate(((CE, ECT0, 1), (ECT0, CE, 1), (ECT0, ECT0, 0))):
        bench.request(psn, ackreq=1, outer_ecn=outer, inner_ecn=inner)
        bench.expect("SACK", ack_psn=psn, m=m)


@case("MRC-ECN-05", without=[TRIM_NACK], look_at="the DSCP of data when trims cannot be answered")
def data_that_must_not_be_trimmed(bench: Bench) -> None:
    """TRIM_NACK is not agreed on: data has DSCP_NO_TRIM."""
    _expect_codepoint(bench, bench.written(0, pattern(16)), bench.profile.dscp_no_trim)


@case("MRC-ECN-06", agreed=[TRIM_NACK], look_at="the DSCP of first transmissions and of probes")
def first_transmissions_and_probes_are_trimmable(bench: Bench) -> None:
    """A write that nobody answers, and the probe that asks for it, have DSCP_TRIMMABLE."""
    _expect_codepoint(bench, bench.written(0, pattern(16)), bench.profile.dscp_trimmable)
    _expect_codepoint(bench, bench.expect("PROBE", within=ms(200)), bench.profile.dscp_trimmable)


@case("MRC-ECN-07", agreed=[TRIM_NACK], look_at="the DSCP of retransmissions")
def retransmissions_have_a_codepoint_of_their_own(bench: Bench) -> None:
    """What is sent again after a NACK has DSCP_TRIMMABLE_RETX."""
    bench.nack(bench.written(0, pattern(16)), wire.TRIMMED)
    _expect_codepoint(bench, bench.expect("WRITE", psn=0, rtx=1), bench.profile.dscp_trimmable_retx)


@case("MRC-ECN-09", look_at="the DSCP of everything that answers")
def answers_are_in_the_control_class(bench: Bench) -> None:
    """A SACK, an ACK, a NACK and an endpoint response have DSCP_CONTROL."""
    control = bench.profile.dscp_control
    bench.request(0, ackreq=1)
    _expect_codepoint(bench, bench.expect("SACK", ack_psn=0), control)
    _expect_codepoint(bench, bench.expect("ACK", psn=0), control)
    bench.request(1 + bench.window)
    _expect_codepoint(bench, bench.expect("NACK", nack_psn=1 + bench.window), control)
    bench.endpoint_request(7)
    _expect_codepoint(bench, bench.expect("ENDPOINT_RESPONSE", request_id=7), control)


@case("MRC-ECN-10", mode="srv6", look_at="codepoint and ECN of both headers, of data and of control packets")
def both_headers_have_the_same(bench: Bench) -> None:
    """Data, a SACK and an ACK leave with the same DSCP and ECN on the outer and on the inner header."""
    bench.post_write(pattern(16))
    bench.request(0, ackreq=1)
    for kind in ("WRITE", "SACK", "ACK"):
        packet = bench.expect(kind)
        inner, outer = (packet.inner_dscp, packet.inner_ecn), (packet.dscp, packet.ecn)
        bench.check(inner == outer, f"{outer} as (DSCP, ECN) of the inner header", f"it is {inner}")
