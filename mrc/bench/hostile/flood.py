"""The flood itself: packets in a file, a program in C that sends them at a steady rate."""

from __future__ import annotations

import ipaddress
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrc.errors import PeerError
from mrc.wire.usid import UsidTemplate

PROGRAM = "flood.c"
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_IPV6_IN_IPV6, _UDP_PROTOCOL = 41, 17
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Flooded:
    """What the program says when it is over."""

    packets: int
    refused: int
    seconds: float

    @property
    def kpps(self) -> float:
        return self.packets / self.seconds / 1e3 if self.seconds else 0.0


def through_the_fabric(inner: bytes, source: str, way: UsidTemplate, uplink: int) -> bytes:
    """`inner` behind an outer IPv6 header from `source` along plane 0 of `way`."""
    destination = way.address(0, uplink).to_bytes(16, "big")
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
    file.write_bytes(b"".join(struct.pack("!H", len(packet)) + packet for packet in packets))


def end_flood(process: subprocess.Popen[str]) -> Flooded:
    """Stop the program and read what it says. Raises PeerError when it failed."""
    if process.poll() is None:
        process.terminate()
    out, err = process.communicate(timeout=_END_TIMEOUT_S)
    words = out.split()
    if process.returncode != 0 or len(words) != 3:
        raise PeerError(f"the flood failed: {err.strip() or f'exit status {process.returncode}'}")
    return Flooded(int(words[0]), int(words[1]), float(words[2]))
