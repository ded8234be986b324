# SPDX-License-Identifier: BSD-2-Clause
"""What a drawn capture wraps its frames in: mirrors, overlays and tags, written out byte by byte.

Nothing here uses the package under test.
"""

from __future__ import annotations

import struct

_MACS = bytes.fromhex("0200000000aa 0200000000bb")
_ETHERNET = 14


def _over_ipv4(protocol: int, content: bytes) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0x4000, 61, protocol, 0)
    return _MACS + b"\x08\x00" + head + bytes((192, 0, 2, 1, 192, 0, 2, 2)) + content


def _over_udp(port: int, content: bytes) -> bytes:
    return _over_ipv4(17, struct.pack("!HHHH", 50_000, port, 8 + len(content), 0) + content)


def erspan_2(frame: bytes, number: int) -> bytes:
    gre = struct.pack("!HHI", 0x1000, 0x88BE, number)
    return _over_ipv4(47, gre + struct.pack("!HHI", 0x1005, 0x0064, 0) + frame)


def erspan_3(frame: bytes, number: int) -> bytes:
    gre = struct.pack("!HHI", 0x1000, 0x22EB, number)
    return _over_ipv4(47, gre + struct.pack("!HHIHH", 0x2005, 0x0064, number, 0, 0) + frame)


def gre(frame: bytes, number: int) -> bytes:
    return _over_ipv4(47, struct.pack("!HH", 0, int.from_bytes(frame[12:14], "big")) + frame[_ETHERNET:])


def vxlan(frame: bytes, number: int) -> bytes:
    return _over_udp(4789, struct.pack("!II", 0x0800_0000, 77 << 8) + frame)


def geneve(frame: bytes, number: int) -> bytes:
    return _over_udp(6081, struct.pack("!HHI", 0, 0x6558, 77 << 8) + frame)


def mpls(frame: bytes, number: int) -> bytes:
    labels = struct.pack("!II", 16 << 12 | 62, 17 << 12 | 1 << 8 | 62)
    return frame[:12] + b"\x88\x47" + labels + frame[_ETHERNET:]


def vlan(frame: bytes, number: int) -> bytes:
    return frame[:12] + struct.pack("!HH", 0x8100, 9) + frame[12:]


FORMS = {
    "plain": lambda frame, number: frame,
    "erspan2": erspan_2,
    "erspan3": erspan_3,
    "gre": gre,
    "vxlan": vxlan,
    "geneve": geneve,
    "mpls": mpls,
    "vlan": vlan,
}
# How many bytes they put before a frame; GRE takes its Ethernet header off.
ADDED = {"plain": 0, "erspan2": 50, "erspan3": 54, "gre": 24, "vxlan": 50, "geneve": 50, "mpls": 8, "vlan": 4}
