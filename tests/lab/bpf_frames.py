# SPDX-License-Identifier: BSD-2-Clause
"""Frames as they leave a node, put together by hand from wire.md, and link programs in which time stands still."""

from __future__ import annotations

import os
import struct

from mrc.fabric import Impairment
from mrc.lab.bpf import LinkProgram, LinkSettings, libbpf, trial

ETHERNET = bytes.fromhex("4d5200000002 4d5200000001")
UDP, IPV6, ROUTING, TCP = 17, 41, 43, 6
NO_TRIM, TRIMMABLE, TRIMMABLE_RETX, TRIMMED, TRIMMED_LASTHOP, CONTROL = 0, 4, 8, 12, 16, 46
NOT_ECT, ECT_1, ECT_0, CE = 0, 1, 2, 3
FAST_CLASS = 0x4D530001
# A WRITE Only: BTH 12, METH 4, TSETH 4, RETH 16, payload, ICRC 4.
BTH = bytes.fromhex("ca00ffff0012345610abcdef")
EXTENSIONS = bytes(range(1, 25))
OVERHEAD = 8 + len(BTH) + len(EXTENSIONS) + 4
KINDS = ("srv6", "srh", "udp6", "udp4")


def udp(payload: int, port: int = 4791) -> bytes:
    return struct.pack("!HHHH", 0xC001, port, OVERHEAD + payload, 0) + BTH + EXTENSIONS + bytes(payload) + b"icrc"


def ipv6(next_header: int, content: bytes, dscp: int, ecn: int) -> bytes:
    first = 6 << 28 | dscp << 22 | ecn << 20 | 0xABCDE
    return struct.pack("!IHBB", first, len(content), next_header, 64) + bytes(range(32)) + content


def ipv4(protocol: int, content: bytes, dscp: int, ecn: int, fragment: int = 0) -> bytes:
    head = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        dscp << 2 | ecn,
        20 + len(content),
        7,
        fragment,
        64,
        protocol,
        0,
        b"\n\0\0\1",
        b"\n\0\0\2",
    )
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + content


def checksum(header: bytes) -> int:
    """RFC 1071; 0 over a header whose checksum is right."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def routing(content: bytes) -> bytes:
    """A segment routing header with one segment (RFC 8754)."""
    return struct.pack("!BBBBBBH", IPV6, 2, 4, 1, 0, 0, 0) + bytes(range(16)) + content


def packet(kind: str, dscp: int = TRIMMABLE, ecn: int = ECT_0, payload: int = 1000) -> bytes:
    """A data packet from its outermost IP header on."""
    if kind == "udp4":
        return ipv4(UDP, udp(payload), dscp, ecn)
    inner = ipv6(UDP, udp(payload), dscp, ecn)
    if kind == "udp6":
        return inner
    return ipv6(IPV6, inner, dscp, ecn) if kind == "srv6" else ipv6(ROUTING, routing(inner), dscp, ecn)


def framed(content: bytes) -> bytes:
    return ETHERNET + (b"\x08\x00" if content[0] >> 4 == 4 else b"\x86\xdd") + content


def settings(last_hop: bool = False, **impairment: float) -> LinkSettings:
    """At a rate of a bit a second, if it is to have one: nothing leaves the queue while a test runs."""
    wanted = Impairment(**impairment)  # type: ignore[arg-type]
    return LinkSettings(wanted, wanted.limit_bytes, 0, last_hop, FAST_CLASS)


def stand_still(program: LinkProgram, wanted: LinkSettings) -> None:
    """`wanted`, which must have a rate, with a bit a second in place of its rate."""
    (descriptor,) = libbpf.maps_of(program.descriptor, ("settings",))
    try:
        libbpf.write_map(descriptor, struct.pack("=Q", 1) + wanted.pack()[8:])
    finally:
        os.close(descriptor)


def send(program: LinkProgram, content: bytes, **options: int) -> trial.Trial:
    """What becomes of a packet that begins with its IP header."""
    return trial.run(program, framed(content), **options)
