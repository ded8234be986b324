"""Whole packets made beforehand, and the file in which the C programs find them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from pathlib import Path

from mrc.wire.usid import PathTemplate

_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_IPV6_IN_IPV6, _UDP_PROTOCOL = 41, 17


def through_the_fabric(inner: bytes, source: str, way: PathTemplate, uplink: int, plane: int = 0) -> bytes:
    """`inner` behind an outer IPv6 header from `source` along one path of `way`."""
    destination = way.address(plane, uplink).to_bytes(16, "big")
    head = _IPV6.pack(6 << 28, len(inner), _IPV6_IN_IPV6, 64, ipaddress.IPv6Address(source).packed, destination)
    return head + inner


def harmless(source: str, destination: str, port: int, length: int) -> bytes:
    """A plain UDP datagram of `length` bytes, IPv6 header and all, with a right checksum."""
    ends = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed
    payload = bytes(length - _IPV6.size - _UDP.size)
    size = _UDP.size + len(payload)
    pseudo = ends + struct.pack("!II", size, _UDP_PROTOCOL) + _UDP.pack(port, port, size, 0) + payload
    words = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo[: len(pseudo) // 2 * 2]))
    words += pseudo[-1] << 8 if len(pseudo) % 2 else 0
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    checksum = ~words & 0xFFFF or 0xFFFF
    head = _IPV6.pack(6 << 28, size, _UDP_PROTOCOL, 64, ends[:16], ends[16:])
    return head + _UDP.pack(port, port, size, checksum) + payload


def write_packets(file: Path, packets: Sequence[bytes]) -> None:
    """Each behind its length, 16 bits, big-endian."""
    file.write_bytes(b"".join(struct.pack("!H", len(packet)) + packet for packet in packets))
