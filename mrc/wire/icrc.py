"""The ICRC: the last four bytes of every packet (wire.md section 9).

CRC-32 over 8 bytes of ones, then the packet from its IP header on with everything a router or the transport may
change set to ones. The result goes out least significant byte first. Under SRv6 it is the inner packet's.
"""

from __future__ import annotations

from isal.isal_zlib import crc32

IPV6_HEADER = 40
UDP_HEADER = 8
_BTH_RESERVED = 4  # the byte of the BTH masked to ones
_ONES = b"\xff" * 8


def icrc_ipv6(packet: bytes | bytearray | memoryview) -> int:
    """ICRC of an IPv6 packet given from its IPv6 header to just before the ICRC. UDP follows directly."""
    head = bytearray(_ONES)
    head += packet[: IPV6_HEADER + UDP_HEADER + _BTH_RESERVED + 1]
    # Traffic class and flow label fill the first four bytes but for the version nibble; then the hop limit.
    head[8] |= 0x0F
    head[9:12] = b"\xff\xff\xff"
    head[8 + 7] = 0xFF
    _mask_udp_and_bth(head, 8 + IPV6_HEADER)
    return crc32(memoryview(packet)[len(head) - 8 :], crc32(head))


def icrc_ipv4(packet: bytes | bytearray | memoryview) -> int:
    """ICRC of an IPv4 packet given from its IPv4 header (options included) to just before the ICRC."""
    header = (packet[0] & 0x0F) * 4
    head = bytearray(_ONES)
    head += packet[: header + UDP_HEADER + _BTH_RESERVED + 1]
    head[8 + 1] = 0xFF  # ToS
    head[8 + 8] = 0xFF  # TTL
    head[8 + 10 : 8 + 12] = b"\xff\xff"  # header checksum
    _mask_udp_and_bth(head, 8 + header)
    return crc32(memoryview(packet)[len(head) - 8 :], crc32(head))


def _mask_udp_and_bth(head: bytearray, udp: int) -> None:
    head[udp + 6 : udp + 8] = b"\xff\xff"  # UDP checksum
    head[udp + UDP_HEADER + _BTH_RESERVED] = 0xFF


def icrc_bytes(value: int) -> bytes:
    """The four bytes as sent."""
    return value.to_bytes(4, "little")


# The eight bytes of ones in front of every packet, already counted in.
ICRC_SEED: int = crc32(_ONES)


def _ipv6_mask() -> bytes:
    mask = bytearray(IPV6_HEADER + UDP_HEADER + _BTH_RESERVED + 1)
    mask[0] = 0x0F
    mask[1:4] = b"\xff\xff\xff"
    mask[7] = 0xFF
    mask[46:48] = b"\xff\xff"
    mask[52] = 0xFF
    return bytes(mask)


# What is set to ones in the first 53 bytes of an IPv6 packet, the BTH's reserved byte being the last.
ICRC_MASK: bytes = _ipv6_mask()
