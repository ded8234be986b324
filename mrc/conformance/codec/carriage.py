# SPDX-License-Identifier: BSD-2-Clause
"""What carries a packet: UDP in IP, in SRv6 mode in an outer IPv6 header (wire.md sections 1, 10, 11)."""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from mrc.conformance.codec.icrc import ICRC_LENGTH, UDP_LENGTH
from mrc.wire.profile import WireProfile

__all__ = ["Carriage", "Carried", "Outer", "ev_fields", "ev_of", "parsed_address", "read_carriage"]

UDP, IPV6, ROUTING = 17, 41, 43
IPV6_LENGTH, IPV4_LENGTH = 40, 20
_DONT_FRAGMENT = 0x4000
# The fixed part of an IPv6 header, each address in two halves.
_IPV6 = struct.Struct(">IHBBQQQQ")
_UDP = struct.Struct(">HHHH")
_HALF = (1 << 64) - 1


class Outer(NamedTuple):
    """The outer IPv6 header of SRv6 mode. `segments` are those of a segment routing header, if there is one."""

    src: int
    dst: int
    traffic_class: int = 0
    flow_label: int = 0
    hop_limit: int = 64
    segments: tuple[int, ...] = ()

    def around(self, packet: bytes) -> bytes:
        """The packet in this header."""
        following, inside = IPV6, packet
        if self.segments:
            last = len(self.segments) - 1
            head = struct.pack(">BBBBBBH", IPV6, 2 * len(self.segments), 4, len(self.segments), last, 0, 0)
            inside = head + b"".join(each.to_bytes(16, "big") for each in self.segments) + packet
            following = ROUTING
        return (
            _ipv6(self.traffic_class, self.flow_label, len(inside), following, self.hop_limit, self.src, self.dst)
            + inside
        )


class Carriage(NamedTuple):
    """IP and UDP. Addresses are numbers, of 32 bits where `version` is 4. Lengths left None are the right ones."""

    src: int
    dst: int
    version: int = 6
    traffic_class: int = 0
    flow_label: int = 0
    hop_limit: int = 64
    sport: int = 0
    dport: int = 4791
    chksum: int = 0
    ip_length: int | None = None
    udp_length: int | None = None
    outer: Outer | None = None

    def headers(self, transport_length: int) -> bytes:
        """IP and UDP header in front of `transport_length` bytes and their ICRC; the outer header is not among them."""
        udp_length = UDP_LENGTH + transport_length + ICRC_LENGTH
        shown = udp_length if self.udp_length is None else self.udp_length
        udp = _UDP.pack(self.sport, self.dport, shown, self.chksum)
        if self.version == 6:
            length = udp_length if self.ip_length is None else self.ip_length
            return _ipv6(self.traffic_class, self.flow_label, length, UDP, self.hop_limit, self.src, self.dst) + udp
        length = IPV4_LENGTH + udp_length if self.ip_length is None else self.ip_length
        head = struct.pack(
            ">BBHHHBBHII",
            0x45,
            self.traffic_class,
            length,
            0,
            _DONT_FRAGMENT,
            self.hop_limit,
            UDP,
            0,
            self.src,
            self.dst,
        )
        return head[:10] + _checksum(head).to_bytes(2, "big") + head[12:] + udp

    def in_outer(self, packet: bytes) -> bytes:
        """The packet in its outer header, if it has one."""
        return packet if self.outer is None else self.outer.around(packet)


def _ipv6(traffic_class: int, flow_label: int, length: int, following: int, hops: int, src: int, dst: int) -> bytes:
    first = 6 << 28 | traffic_class << 20 | flow_label
    return _IPV6.pack(first, length, following, hops, src >> 64, src & _HALF, dst >> 64, dst & _HALF)


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Carried(NamedTuple):
    """A packet as it was found: what carried it, and where UDP and the transport begin in `data`.

    `inner_at` is where the innermost IP header begins; the `carriage` has the lengths its headers name.
    """

    carriage: Carriage
    inner_at: int
    transport_at: int


def read_carriage(data: bytes) -> Carried | str:
    """The headers up to UDP, or what is wrong with them, in words."""
    outer, at = None, 0
    if data[:1] and data[0] >> 4 == 6 and len(data) >= IPV6_LENGTH and data[6] in (IPV6, ROUTING):
        outer, at, wrong = _read_outer(data)
        if wrong:
            return wrong
    version = data[at] >> 4 if len(data) > at else 0
    if version == 6 and len(data) >= at + IPV6_LENGTH:
        first, length, following, hops, high, low, *halves = _IPV6.unpack_from(data, at)
        src, dst = high << 64 | low, halves[0] << 64 | halves[1]
        traffic_class, flow_label, udp_at = first >> 20 & 0xFF, first & 0xFFFFF, at + IPV6_LENGTH
    elif version == 4 and len(data) >= at + IPV4_LENGTH:
        head, traffic_class, length, _, _, hops, following, _, src, dst = struct.unpack_from(">BBHHHBBHII", data, at)
        flow_label, udp_at = 0, at + 4 * (head & 0x0F)
    else:
        return "no IPv4 or IPv6 header"
    if following != UDP or len(data) < udp_at + UDP_LENGTH:
        return f"protocol {following} where UDP is expected"
    sport, dport, udp_length, chksum = _UDP.unpack_from(data, udp_at)
    carriage = Carriage(
        src,
        dst,
        version,
        traffic_class,
        flow_label,
        hops,
        sport,
        dport,
        chksum,
        length,
        udp_length,
        outer,
    )
    return Carried(carriage, at, udp_at + UDP_LENGTH)


def _read_outer(data: bytes) -> tuple[Outer | None, int, str]:
    first, _, following, hops, *halves = _IPV6.unpack_from(data)
    at, segments = IPV6_LENGTH, []
    if following == ROUTING:
        size = 8 * (1 + data[at + 1]) if len(data) >= at + 8 else 1 << 16
        if len(data) < at + size:
            return None, 0, "a segment routing header that is cut short"
        following = data[at]
        segments = [int.from_bytes(data[each : each + 16], "big") for each in range(at + 8, at + size, 16)]
        at += size
    if following != IPV6:
        return None, 0, f"next header {following} where IPv6 in IPv6 is expected"
    src, dst = halves[0] << 64 | halves[1], halves[2] << 64 | halves[3]
    return Outer(src, dst, first >> 20 & 0xFF, first & 0xFFFFF, hops, tuple(segments)), at, ""


@lru_cache(maxsize=256)
def parsed_address(text: str) -> tuple[int, int]:
    """(IP version, number) of an address."""
    address = ip_address(text)
    return address.version, int(address)


def ev_fields(ev: int, version: int, profile: WireProfile) -> tuple[int, int]:
    """(UDP source port, low 16 bits of the flow label) that carry an EV; on IPv4 only the source port does."""
    low, high = ev & 0xFFFF, ev >> 16
    if not profile.ev_low_half_in_source_port:
        low, high = high, low
    return low, high if version == 6 else 0


def ev_of(carriage: Carriage, profile: WireProfile) -> int:
    """The EV a packet carries; the half that does not travel on IPv4 is 0."""
    label = carriage.flow_label & 0xFFFF
    low, high = (carriage.sport, label) if profile.ev_low_half_in_source_port else (label, carriage.sport)
    return high << 16 | low
