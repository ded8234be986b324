# SPDX-License-Identifier: BSD-2-Clause
"""Whole packets made beforehand, and the file in which the C programs find them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from pathlib import Path

from mrc.wire.headers import HEADERS
from mrc.wire.usid import PathTemplate

_IPV6, _UDP = HEADERS["ipv6"], HEADERS["udp"]
_IPV6_IN_IPV6, _UDP_PROTOCOL, _HOP_LIMIT = 41, 17, 64


def _ipv6(source: str, destination: int, protocol: int, length: int) -> bytes:
    ends = {"src": int(ipaddress.IPv6Address(source)), "dst": destination}
    return _IPV6.pack({"version": 6, "plen": length, "nh": protocol, "hlim": _HOP_LIMIT} | ends)


def through_the_fabric(inner: bytes, source: str, way: PathTemplate, uplink: int, plane: int = 0) -> bytes:
    """`inner` behind an outer IPv6 header from `source` along one path of `way`."""
    return _ipv6(source, way.address(plane, uplink), _IPV6_IN_IPV6, len(inner)) + inner


def harmless(source: str, destination: str, port: int, length: int) -> bytes:
    """A plain UDP datagram of `length` bytes, IPv6 header and all, with a right checksum."""
    ends = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed
    payload = bytes(length - _IPV6.length - _UDP.length)
    size = _UDP.length + len(payload)
    udp = {"sport": port, "dport": port, "len": size}
    pseudo = ends + struct.pack("!II", size, _UDP_PROTOCOL) + _UDP.pack(udp) + payload
    words = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo[: len(pseudo) // 2 * 2]))
    words += pseudo[-1] << 8 if len(pseudo) % 2 else 0
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    checksum = ~words & 0xFFFF or 0xFFFF
    head = _ipv6(source, int(ipaddress.IPv6Address(destination)), _UDP_PROTOCOL, size)
    return head + _UDP.pack(udp | {"chksum": checksum}) + payload


def write_packets(file: Path, packets: Sequence[bytes]) -> None:
    """Each behind its length, 16 bits, big-endian."""
    file.write_bytes(b"".join(struct.pack("!H", len(packet)) + packet for packet in packets))
