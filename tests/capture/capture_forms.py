# SPDX-License-Identifier: BSD-2-Clause
"""Capture files written out byte by byte, for the tests of the reader; nothing here uses the package under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

START_S = 1_700_000_000
ETHER = bytes.fromhex("020000000002 020000000001")

Packets = Sequence[bytes]


def pcap(
    packets: Packets,
    link_type: int = 1,
    order: str = "<",
    nanoseconds: bool = False,
    missing: int = 0,
    snaplen: int = 0,
) -> bytes:
    """A pcap file; packet i has the time START_S + i seconds and i units, and lacks its last `missing` bytes."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen or 262144, link_type)
    for number, packet in enumerate(packets):
        kept = packet[: len(packet) - missing]
        data += struct.pack(order + "IIII", START_S + number, number, len(kept), len(packet)) + kept
    return data


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = 1, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def enhanced(packet: bytes, units: int, number: int = 0, wire_length: int | None = None, order: str = "<") -> bytes:
    length = len(packet) if wire_length is None else wire_length
    fixed = struct.pack(order + "IIIII", number, units >> 32, units & 0xFFFFFFFF, len(packet), length)
    return block(6, fixed + packet, order)


def simple(packet: bytes, wire_length: int | None = None, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", len(packet) if wire_length is None else wire_length) + packet, order)


def on_ethernet(packet: bytes) -> bytes:
    """An IP packet in an Ethernet frame."""
    return ETHER + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + packet
