# SPDX-License-Identifier: BSD-2-Clause
"""The invariant CRC: what it covers, and what becomes of a packet whose ICRC is wrong (wire.md section 9)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from mrc.conformance.cases.wire.every_kind import every_kind
from mrc.conformance.codec.icrc import covered
from mrc.conformance.script import TRIM_NACK, Bench, Crafted, case, ms, pattern, us, wire

COVERED = "what of the packet the CRC is worked out over"


def _dropped(bench: Bench, psn: int, packets: Iterable[Crafted]) -> None:
    """Each of these is dropped and counted, and PSN `psn` is still missing after them."""
    bench.read()
    for packet in packets:
        bench.expect_ignored(packet)
    bench.expect_goes_on(psn)


def _taken(bench: Bench, first: int, packets: Iterable[Crafted]) -> None:
    """Each of these, with PSNs from `first` on, is acknowledged."""
    for psn, packet in enumerate(packets, first):
        bench.send(packet)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn)


@case("MRC-ICRC-01", own_timers=True, look_at="the polynomial and the order of the four bytes")
def every_packet_ends_in_its_icrc(bench: Bench) -> None:
    """The last four bytes of every packet of the target's are its CRC-32, least significant byte first."""
    for packet in every_kind(bench):
        bench.check(not packet.fault, "a packet that an honest peer takes", f"{packet}")


@case("MRC-ICRC-01/received", look_at="the order of the four bytes on receipt")
def the_icrc_comes_least_significant_byte_first(bench: Bench) -> None:
    """A request is taken; one whose four bytes are turned round is dropped and counted, and so is one with zeros."""
    good = bench.make.request(0, pattern(21), ackreq=1)
    turned = int.from_bytes(good.right_icrc.to_bytes(4, "little"), "big")
    _dropped(bench, 0, [good.but(icrc=turned), good.but(icrc=0)])
    _taken(bench, 1, [bench.make.request(1, pattern(21), ackreq=1)])


@case("MRC-ICRC-02", look_at="the eight bytes 0xff in front")
def the_crc_starts_with_eight_bytes_of_ones(bench: Bench) -> None:
    """A request whose CRC was worked out without the eight bytes in front is dropped and counted."""
    good = bench.make.request(0, pattern(21), ackreq=1)
    _dropped(bench, 0, [good.but(icrc=zlib.crc32(covered(good.uncovered)))])


@case("MRC-ICRC-03", look_at=COVERED + ": of IPv6 traffic class, flow label and hop limit count as ones")
def switches_may_change_three_fields_of_ipv6(bench: Bench) -> None:
    """Requests whose traffic class, flow label and hop limit changed on the way, one at a time and all, are taken."""
    changes = ({"inner_dscp": 7}, {"fl": 0xF0001}, {"hlim": 1}, {"inner_dscp": 1, "fl": 0xABCDE, "hlim": 255})
    _taken(
        bench,
        0,
        (bench.make.request(psn, pattern(9), ackreq=1).on_the_way(**each) for psn, each in enumerate(changes)),
    )


@case("MRC-ICRC-03/rest", look_at=COVERED + ": addresses and next header count as they are")
def switches_may_change_nothing_else_of_ipv6(bench: Bench) -> None:
    """A request whose CRC took the changing fields as they stood is dropped; so is one with another destination."""
    good = bench.make.request(0, pattern(9), ackreq=1)
    unmasked = good.but(icrc=zlib.crc32(b"\xff" * 8 + good.uncovered))
    _dropped(bench, 0, [unmasked, good.on_the_way(dst=good.carriage.dst ^ 1)])


@case(
    "MRC-ICRC-04",
    mode="udp",
    ip=4,
    own_timers=True,
    look_at=COVERED + ": of IPv4 ToS, TTL and header checksum count as ones",
)
def routers_may_change_three_fields_of_ipv4(bench: Bench) -> None:
    """Requests over IPv4 whose ToS and TTL, and with them the header checksum, changed on the way are taken."""
    changes = ({"inner_dscp": 7}, {"hlim": 1}, {"inner_dscp": 1, "inner_ecn": 1, "hlim": 255})
    _taken(
        bench,
        0,
        (bench.make.request(psn, pattern(9), ackreq=1).on_the_way(**each) for psn, each in enumerate(changes)),
    )
    for packet in every_kind(bench):
        bench.check(not packet.fault, "a packet over IPv4 that an honest peer takes", f"{packet}")


@case("MRC-ICRC-05", look_at=COVERED + ": the UDP checksum counts as ones, the source port as it is")
def the_udp_checksum_may_change_and_the_source_port_may_not(bench: Bench) -> None:
    """A request whose UDP checksum changed on the way is taken, one whose source port did is dropped and counted."""
    _taken(bench, 0, [bench.make.request(0, pattern(9), ackreq=1).on_the_way(chksum=0xBEEF)])
    good = bench.make.request(1, pattern(9), ackreq=1)
    bench.expect_memory(0, pattern(9))
    _dropped(bench, 1, [good.on_the_way(sport=good.carriage.sport ^ 0x0100)])


@case("MRC-ICRC-06", look_at=COVERED + ": BTH byte 4 counts as 0xff, byte 8 as it is")
def byte_4_of_the_bth_may_change_and_byte_8_may_not(bench: Bench) -> None:
    """A request whose BTH byte 4 changed on the way is taken; with other reserved bits in byte 8 it is dropped."""
    _taken(bench, 0, [bench.make.request(0, ackreq=1).on_the_way(becn=1, bth_reserved=0x1A)])
    good = bench.make.request(1, ackreq=1)
    _dropped(bench, 1, [good.on_the_way(reserved2=1), good.on_the_way(reserved3=8)])


@case("MRC-ICRC-07", look_at=COVERED + ": everything behind the BTH, to the last byte of padding")
def everything_behind_the_bth_is_covered(bench: Bench) -> None:
    """One bit changed on the way in METH, TSETH, RETH, ImmDt, payload or padding: dropped and counted each time. The
    packet as it was is taken, its padding included."""
    bench.post_receives()
    good = bench.make.request(0, pattern(5), timestamp=3, immediate=6, ackreq=1)
    changes: list[dict[str, object]] = [
        {"msn": 1},
        {"tx_timestamp": 2},
        {"dmalen": 4},
        {"va": bench.target.region_va + 1},
    ]
    changes += [{"data": 7}, {"payload": pattern(5, 2)}, {"padding": b"\0\0\1"}]
    _dropped(bench, 0, (good.on_the_way(**each) for each in changes))
    _taken(bench, 1, [bench.make.request(1, pattern(5), timestamp=3, ackreq=1)])


@case(
    "MRC-ICRC-08",
    mode="srv6",
    own_timers=True,
    look_at=COVERED + " in SRv6 mode: the inner packet, since every switch rewrites the outer header",
)
def the_outer_header_is_not_covered(bench: Bench) -> None:
    """A request whose outer header got another codepoint on the way is taken; and what the target sends has an ICRC
    that holds for the inner packet alone."""
    _taken(bench, 0, [bench.make.request(0, pattern(9), ackreq=1).on_the_way(outer_dscp=9)])
    for packet in every_kind(bench):
        bench.check(not packet.fault, "an ICRC over the inner packet", f"{packet}")


@case("MRC-ICRC-09", own_timers=True, look_at="the UDP checksum of what is sent")
def the_udp_checksum_is_sent_as_0(bench: Bench) -> None:
    """The UDP checksum is 0 in every packet of the target's."""
    for packet in every_kind(bench):
        found = packet.carriage.chksum
        bench.check(found == 0, "UDP checksum 0", f"it is {found:#06x}: {packet}")


@case(
    "MRC-ICRC-09/udp",
    mode="udp",
    own_timers=True,
    look_at="the UDP checksum in UDP mode, where the system might fill it in",
)
def the_udp_checksum_is_sent_as_0_in_udp_mode(bench: Bench) -> None:
    """The UDP checksum is 0 in every packet of the target's in UDP mode."""
    for packet in every_kind(bench):
        found = packet.carriage.chksum
        bench.check(found == 0, "UDP checksum 0", f"it is {found:#06x}: {packet}")


@case("MRC-ICRC-10", look_at="whether the UDP checksum is verified on receipt: it is not")
def the_udp_checksum_is_ignored(bench: Bench) -> None:
    """Requests with UDP checksums 0x0001 and 0xffff, both wrong, are taken."""
    _taken(bench, 0, (bench.make.request(psn, ackreq=1, chksum=value) for psn, value in enumerate((0x0001, 0xFFFF))))


@case("MRC-ICRC-11", look_at="what a packet with a wrong ICRC may change: nothing but a counter")
def a_wrong_icrc_is_dropped(bench: Bench) -> None:
    """Requests, a probe, an endpoint request and a NACK with one bit of the ICRC wrong: dropped and counted."""
    write = bench.written(0, pattern(4))
    make = bench.make
    packets = [make.request(0, pattern(9), ackreq=1), make.probe(1), make.endpoint_request(1), make.sack(0, to=write)]
    packets.append(make.nack(write, wire.TRIMMED_LASTHOP))
    for packet in packets:
        bench.expect_ignored(packet.but(icrc=packet.right_icrc ^ 1), within=us(10))
    bench.expect_no_completion()
    bench.expect_goes_on(0)


@case(
    "MRC-ICRC-12",
    agreed=[TRIM_NACK],
    look_at="whether a trimmed packet is known by its DSCP before its ICRC is looked for",
)
def a_trimmed_packet_needs_no_icrc(bench: Bench) -> None:
    """A trimmed packet, which has no ICRC, is answered with NACK TRIMMED; the same bytes under another codepoint are
    not."""
    cut = bench.make.request(0, pattern(bench.mtu), ackreq=1).trimmed()
    bench.send(cut)
    bench.expect("NACK", nack_psn=0, reason=wire.TRIMMED)
    bench.send(cut.but(dscp=bench.profile.dscp_trimmable))
    bench.expect_silence(ms(1))
    bench.expect_works(0)
