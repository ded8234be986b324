# SPDX-License-Identifier: BSD-2-Clause
"""Trimmed packets as a responder gets them (wire.md section 12)."""

from __future__ import annotations

from typing import Any

from mrc.conformance.script import TRIM_NACK, Bench, case, ms, pattern, us, wire

UDP, BTH, METH, TSETH, RETH, IMMDT, ICRC = 8, 12, 4, 4, 16, 4, 4


def _both_lengths(bench: Bench) -> None:
    """A packet trimmed twice: with the lengths rewritten, and with those it had before."""
    for psn, lengths in enumerate((True, False)):
        bench.send(bench.make.request(psn, pattern(bench.mtu)).trimmed(lengths=lengths))
        bench.expect("NACK", nack_psn=psn, reason=wire.TRIMMED)
    bench.expect_nothing_written()


@case("MRC-TRIM-04", agreed=[TRIM_NACK], look_at="which lengths of a trimmed packet are believed")
def lengths_may_be_rewritten_or_not(bench: Bench) -> None:
    """A trimmed packet with its lengths rewritten and one with the old ones: NACK TRIMMED for either."""
    _both_lengths(bench)


@case("MRC-TRIM-04/udp", agreed=[TRIM_NACK], mode="udp", look_at="the IP and UDP lengths of a trimmed packet")
def lengths_may_be_rewritten_or_not_in_udp_mode(bench: Bench) -> None:
    """Without an outer header IP length and UDP length are rewritten, or neither: NACK TRIMMED for either."""
    _both_lengths(bench)


@case("MRC-TRIM-04/ipv4", agreed=[TRIM_NACK], mode="udp", ip=4, look_at="the IPv4 length of a trimmed packet")
def lengths_may_be_rewritten_or_not_in_ipv4(bench: Bench) -> None:
    """Over IPv4 lengths are rewritten or not: NACK TRIMMED for either."""
    _both_lengths(bench)


def _cut(bench: Bench, psn: int, kept: int, *, lasthop: bool = False, **fields: Any) -> None:
    """Send a packet of which so many bytes from the BTH on are left, under a TRIMMED codepoint."""
    packet = bench.make.request(psn, pattern(bench.mtu), **fields)
    bench.send(packet.trimmed(lasthop=lasthop, lengths=False, kept=kept))


def _every_size(bench: Bench) -> None:
    """From BTH and METH to all but the last byte, on the last hop and before it.

    The outermost length says what is left, the UDP length too or not; behind an outer header the inner IP length does
    as the UDP length."""
    whole = BTH + METH + RETH + bench.mtu + ICRC
    head = 20 if bench.make.request(0).carriage.version == 4 else 0
    psn = 0
    # Through the RETH, and through what would be an ICRC; 128, 256 and 1,010 bytes of a frame in SRv6 mode less its
    # headers: Ethernet 14, IPv6 40, IPv6 40, UDP 8.
    for kept in (BTH + METH, BTH + 8, 26, BTH + METH + RETH, BTH + METH + RETH + ICRC, 154, 908, whole - 1):
        for udp_length in (UDP + kept, UDP + whole):
            for lasthop, reason in ((False, wire.TRIMMED), (True, wire.TRIMMED_LASTHOP)):
                packet = bench.make.request(psn, pattern(bench.mtu)).trimmed(lasthop=lasthop, kept=kept)
                ip_length = head + (UDP + kept if packet.carriage.outer is None else udp_length)
                bench.send(packet.but(plen=ip_length, udp_len=udp_length))
                bench.expect("NACK", nack_psn=psn, reason=reason)
                psn += 1
    bench.expect_nothing_written()


@case(
    "MRC-TRIM-10",
    agreed=[TRIM_NACK],
    path_mtu=1024,
    look_at="how a trimmed packet is told that is long enough for its headers and ICRC: by its lengths or by its ICRC",
)
def whatever_a_switch_keeps(bench: Bench) -> None:
    """Packets cut to eight sizes, with the lengths rewritten and with the old ones: NACK TRIMMED for each."""
    _every_size(bench)


@case("MRC-TRIM-10/udp", agreed=[TRIM_NACK], path_mtu=1024, mode="udp", look_at="as MRC-TRIM-10")
def whatever_a_switch_keeps_in_udp_mode(bench: Bench) -> None:
    """Packets without an outer header cut to eight sizes: NACK TRIMMED for each."""
    _every_size(bench)


@case("MRC-TRIM-10/stev", agreed=[TRIM_NACK], path_mtu=1024, mode="stev", look_at="as MRC-TRIM-10")
def whatever_a_switch_keeps_in_stev_mode(bench: Bench) -> None:
    """Packets cut to eight sizes where switches read the EV: NACK TRIMMED for each."""
    _every_size(bench)


@case("MRC-TRIM-10/ipv4", agreed=[TRIM_NACK], path_mtu=1024, mode="udp", ip=4, look_at="as MRC-TRIM-10")
def whatever_a_switch_keeps_in_ipv4(bench: Bench) -> None:
    """Packets over IPv4 cut to eight sizes: NACK TRIMMED for each."""
    _every_size(bench)


@case(
    "MRC-TRIM-05/lengths",
    agreed=[TRIM_NACK],
    look_at="whether each length is held against what came: the inner IP length alone, or the UDP length alone",
)
def shorter_than_any_one_length(bench: Bench) -> None:
    """What is left has headers and four bytes more. Of the two inner lengths one says so, the other has its old value,
    in turn; then both say so, and only the ICRC is wrong."""
    kept = BTH + METH + RETH + 100
    right, old = UDP + kept, UDP + BTH + METH + RETH + bench.mtu + ICRC
    for psn, (plen, udp_len) in enumerate(((right, old), (old, right), (right, right))):
        packet = bench.make.request(psn, pattern(bench.mtu)).trimmed(kept=kept)
        bench.send(packet.but(plen=plen, udp_len=udp_len))
        bench.expect("NACK", nack_psn=psn, reason=wire.TRIMMED)
    bench.expect_nothing_written()


@case(
    "MRC-TRIM-05",
    agreed=[TRIM_NACK],
    look_at="how long a packet has to be for its opcode before it is no trimmed one: TSETH and ImmDt count",
)
def too_short_for_its_headers_is_trimmed(bench: Bench) -> None:
    """What is left ends behind the METH, behind the 8 bytes a switch keeps, or one byte before headers and ICRC would
    be complete: of a plain write, of one with TSETH, of one with immediate. Each is answered as trimmed."""
    plain = BTH + METH + RETH + ICRC
    kinds: tuple[tuple[int, dict[str, int]], ...] = (
        (plain, {}),
        (plain + TSETH, {"timestamp": 7}),
        (plain + IMMDT, {"immediate": 7}),
    )
    psn = 0
    for whole, fields in kinds:
        for kept in (BTH + METH, BTH + 8, whole - 1):
            for lasthop, reason in ((False, wire.TRIMMED), (True, wire.TRIMMED_LASTHOP)):
                _cut(bench, psn, kept, lasthop=lasthop, **fields)
                bench.expect("NACK", nack_psn=psn, reason=reason)
                psn += 1
    bench.expect_nothing_written()


@case("MRC-TRIM-06", agreed=[TRIM_NACK], look_at="whether the codepoint alone makes a packet a trimmed one")
def a_whole_packet_is_an_ordinary_one(bench: Bench) -> None:
    """Whole requests under the two TRIMMED codepoints, one with payload and one that is nothing but headers and ICRC:
    taken like any other."""
    profile = bench.profile
    for dscp in (profile.dscp_trimmed, profile.dscp_trimmed_lasthop):
        psn = 0 if dscp == profile.dscp_trimmed else 2
        bench.request(psn, pattern(64, psn), offset=64 * psn, ackreq=1, dscp=dscp)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn)
        bench.expect_memory(64 * psn, pattern(64, psn))
        bench.request(psn + 1, ackreq=1, dscp=dscp)
        bench.expect("SACK", ack_psn=psn + 1, cack_psn=psn + 1)
    bench.expect_no("NACK", within=us(100))


@case("MRC-TRIM-05/icrc", agreed=[TRIM_NACK], look_at="what a wrong ICRC means under a TRIMMED codepoint")
def a_wrong_icrc_under_the_codepoint_is_a_trim(bench: Bench) -> None:
    """A request of full length whose ICRC is wrong: with a TRIMMED codepoint NACK TRIMMED, without one nothing."""
    profile = bench.profile
    codepoints = ((profile.dscp_trimmed, wire.TRIMMED), (profile.dscp_trimmed_lasthop, wire.TRIMMED_LASTHOP))
    for psn, (dscp, reason) in enumerate(codepoints):
        packet = bench.make.request(psn, pattern(64), ackreq=1, dscp=dscp)
        bench.send(packet.but(icrc=packet.right_icrc ^ 1))
        bench.expect("NACK", nack_psn=psn, reason=reason)
    packet = bench.make.request(2, pattern(64), ackreq=1)
    bench.send(packet.but(icrc=packet.right_icrc ^ 1))
    bench.expect_silence(ms(1))
    bench.expect_goes_on(0)


@case("MRC-TRIM-07", agreed=[TRIM_NACK], look_at="what is taken from a trimmed packet beside its PSN")
def a_trimmed_packet_has_not_arrived(bench: Bench) -> None:
    """Two packets come trimmed, with AckReq: a probe shows that neither PSN has arrived. Both come again, are written
    and acknowledged."""
    for psn in (0, 1):
        bench.send(bench.make.request(psn, pattern(64, psn), offset=64 * psn, ackreq=1).trimmed())
        bench.expect("NACK", nack_psn=psn, reason=wire.TRIMMED)
    bench.expect_nothing_written()
    bench.expect_no("ACK", within=us(100))
    bench.probe(5)
    bench.expect("SACK", probe_id=5, cack_psn=-1, bitmap=0, rcvd_bytes=0, ooo_count=0)
    for psn in (0, 1):
        bench.request(psn, pattern(64, psn), offset=64 * psn, rtx=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn)
        bench.expect_memory(64 * psn, pattern(64, psn))


@case(
    "MRC-TRIM-07/rkey", agreed=[TRIM_NACK], look_at="whether R_Key, range or DMALen of a trimmed packet are looked at"
)
def what_is_left_of_the_reth_is_not_trusted(bench: Bench) -> None:
    """A packet whose RETH is there but opens nothing comes trimmed: NACK TRIMMED and no NAK, and the QP goes on."""
    packet = bench.make.request(0, pattern(64), va=3, rkey=bench.target.rkey ^ 1, dmalen=1)
    bench.send(packet.trimmed(lengths=False, kept=BTH + METH + RETH))
    bench.expect("NACK", nack_psn=0, reason=wire.TRIMMED)
    bench.expect_no("NAK", within=us(100))
    bench.expect_works(0)
