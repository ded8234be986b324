# SPDX-License-Identifier: BSD-2-Clause
"""The ICRC (wire.md section 9), with zlib over a masked copy of the packet."""

from __future__ import annotations

import zlib

__all__ = ["covered", "icrc", "icrc_bytes"]

UDP_LENGTH = 8
ICRC_LENGTH = 4
_BTH_RESERVED = 4


def icrc(packet: bytes) -> int:
    """The ICRC of an IP packet that ends just before it: CRC-32 over 8 bytes 0xFF and the packet as `covered`."""
    return zlib.crc32(b"\xff" * 8 + covered(packet))


def covered(packet: bytes) -> bytes:
    """The packet as the ICRC covers it; the (inner) IP header is followed by UDP and the BTH.

    These count as ones: traffic class, flow label and hop limit of IPv6, or ToS, TTL and header checksum of IPv4; the
    UDP checksum; byte 4 of the BTH.
    """
    if packet[0] >> 4 == 6:
        udp_at = 40
        head = b"%c\xff\xff\xff%b\xff%b" % (packet[0] | 0x0F, packet[4:7], packet[8 : udp_at + 6])
    else:
        udp_at = 4 * (packet[0] & 0x0F)
        head = b"%c\xff%b\xff%b\xff\xff%b" % (packet[0], packet[2:8], packet[9:10], packet[12 : udp_at + 6])
    bth = packet[udp_at + UDP_LENGTH :]
    if len(bth) > _BTH_RESERVED:
        bth = b"%b\xff%b" % (bth[:_BTH_RESERVED], bth[_BTH_RESERVED + 1 :])
    return b"%b\xff\xff%b" % (head, bth)


def icrc_bytes(value: int) -> bytes:
    """As it is sent: least significant byte first."""
    return value.to_bytes(ICRC_LENGTH, "little")
