"""Trimmed packets as a responder gets them (wire.md section 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrc.conformance.script import TRIM_NACK, Bench, case, ms, pattern, us, wire

BTH, METH, TSETH, RETH, IMMDT, ICRC = 12, 4, 4, 16, 4, 4


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
    """The same without an outer header, where IP length and UDP length are rewritten."""
    _both_lengths(bench)


@case("MRC-TRIM-04/ipv4", agreed=[TRIM_NACK], mode="udp", ip=4, look_at="the IPv4 length of a trimmed packet")
def lengths_may_be_rewritten_or_not_in_ipv4(bench: Bench) -> None:
    """The same over IPv4."""
    _both_lengths(bench)


def _cut(bench: Bench, psn: int, kept: int, *, lasthop: bool = False, **fields: Any) -> None:
    """Send a packet of which so many bytes from the BTH on are left, under a TRIMMED codepoint."""
    packet = bench.make.request(psn, pattern(bench.mtu), **fields)
    bench.send(replace(packet.trimmed(lasthop=lasthop, lengths=False), kept=kept))


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


@case("MRC-TRIM-06/icrc", agreed=[TRIM_NACK], look_at="whether the ICRC of a packet counts whatever its codepoint is")
def a_whole_packet_needs_its_icrc(bench: Bench) -> None:
    """A request with a wrong ICRC under a TRIMMED codepoint, long enough for its headers: dropped like any other."""
    packet = bench.make.request(0, pattern(64), ackreq=1, dscp=bench.profile.dscp_trimmed)
    bench.send(packet.but(icrc=packet.right_icrc ^ 1))
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    bench.expect_works(0)


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
    bench.send(replace(packet.trimmed(lengths=False), kept=BTH + METH + RETH))
    bench.expect("NACK", nack_psn=0, reason=wire.TRIMMED)
    bench.expect_no("NAK", within=us(100))
    bench.expect_works(0)
