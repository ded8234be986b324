# SPDX-License-Identifier: BSD-2-Clause
"""The ICRC: the last four bytes of every packet (wire.md section 9).

CRC-32 over 8 bytes of ones, then the packet from its IP header on with everything a router or the transport may
change set to ones. The result goes out least significant byte first. Under SRv6 it is the inner packet's.
"""

from __future__ import annotations

from mrc.wire.crc import crc32
from mrc.wire.headers import HEADERS
from mrc.wire.ipv4 import IPV4_ICRC_MASK

IPV6_HEADER: int = HEADERS["ipv6"].length
UDP_HEADER = HEADERS["udp"].length
# The eight bytes of ones in front of every packet, already counted in.
ICRC_SEED: int = crc32(b"\xff" * 8)

# What is set to ones: in a BTH the byte of FECN and BECN, behind which nothing is.
IPV6_ICRC_MASK = HEADERS["ipv6"].pack({"tc": 0xFF, "fl": 0xFFFFF, "hlim": 0xFF})
BTH_ICRC_MASK = HEADERS["bth"].pack({"fecn": 1, "becn": 1, "reserved": 0x3F}).rstrip(b"\0")
TRANSPORT_ICRC_MASK = HEADERS["udp"].pack({"chksum": 0xFFFF}) + BTH_ICRC_MASK
# In the first 53 bytes of an IPv6 packet.
ICRC_MASK: bytes = IPV6_ICRC_MASK + TRANSPORT_ICRC_MASK
_MOST_OPTIONS = 40


def icrc_ipv6(packet: bytes | bytearray | memoryview) -> int:
    """ICRC of an IPv6 packet given from its IPv6 header to just before the ICRC. UDP follows directly."""
    return _icrc(packet, ICRC_MASK)


def icrc_ipv4(packet: bytes | bytearray | memoryview) -> int:
    """ICRC of an IPv4 packet given from its IPv4 header (options included) to just before the ICRC."""
    header = (packet[0] & 0x0F) * 4
    return _icrc(packet, (IPV4_ICRC_MASK + bytes(_MOST_OPTIONS))[:header] + TRANSPORT_ICRC_MASK)


def _icrc(packet: bytes | bytearray | memoryview, mask: bytes) -> int:
    length = len(mask)
    head = int.from_bytes(packet[:length], "big") | int.from_bytes(mask, "big")
    return crc32(memoryview(packet)[length:], crc32(head.to_bytes(length, "big"), ICRC_SEED))


def icrc_bytes(value: int) -> bytes:
    """The four bytes as sent."""
    return value.to_bytes(4, "little")
