"""IPv4 packets in the IPv6-shaped rows of a batch.

A row has 40 bytes of IP header whatever carried the packet. For IPv4 its addresses are IPv4-mapped
(::ffff:a.b.c.d), and the real header, which the ICRC covers (wire.md section 9), would lie in bytes 20 to 39, right in
front of UDP. What we send has no options, identification 0 and "don't fragment"; what we receive keeps the header it
came with.
"""

from __future__ import annotations

import ipaddress
import struct

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

IPV4_HEADER = 20
IPV4_AT = 20  # where a row would hold the real header
NO_OPTIONS = 0x45  # version 4, header of five words
_MAPPED = 0xFFFF << 32
DONT_FRAGMENT = 0x4000
_UDP = 17


def address_number(address: str) -> int:
    """The 128-bit number of an IPv6 address, or of the IPv4-mapped one of an IPv4 address. Raises ValueError."""
    parsed = ipaddress.ip_address(address)
    return _MAPPED | int(parsed) if parsed.version == 4 else int(parsed)


def address_text(number: int) -> str:
    """The usual text of a 128-bit address, of an IPv4-mapped one that of the IPv4 address."""
    address = ipaddress.IPv6Address(number)
    return str(address.ipv4_mapped or address)


def is_mapped(number: int) -> bool:
    """Whether a 128-bit address number is an IPv4-mapped one."""
    return number >> 32 == 0xFFFF


def _mask() -> U8:
    mask = np.zeros(IPV4_HEADER, np.uint8)
    mask[1] = mask[8] = 0xFF  # ToS, TTL
    mask[10:12] = 0xFF  # header checksum
    return mask


# What the ICRC sets to ones in an IPv4 header without options.
IPV4_ICRC_MASK: U8 = _mask()


def mapped_rows(headers: U8) -> Bools:
    """Which of these rows (40 bytes and more each) have IPv4-mapped source addresses."""
    return np.asarray(~headers[:, 8:18].any(axis=1) & (headers[:, 18] == 0xFF) & (headers[:, 19] == 0xFF))


def headers_to_send(rows: U8) -> U8:
    """The IPv4 headers that rows to be sent stand for, ToS, TTL and checksum left 0."""
    count = len(rows)
    headers = np.zeros((count, IPV4_HEADER), np.uint8)
    words = headers.view(">u2")
    headers[:, 0] = NO_OPTIONS
    words[:, 1] = (rows[:, 4].astype(np.uint16) << 8 | rows[:, 5]) + IPV4_HEADER
    words[:, 3] = DONT_FRAGMENT
    headers[:, 9] = _UDP
    headers[:, 12:16] = rows[:, 20:24]
    headers[:, 16:20] = rows[:, 36:40]
    return headers


def shape_rows(rows: U8, headers: U8) -> None:
    """Fill the first 40 bytes of `rows` from the IPv4 headers (without options) their packets came with."""
    tos = headers[:, 1]
    rows[:, 0] = 0x60 | tos >> 4
    rows[:, 1] = tos << 4
    rows[:, 2:4] = 0
    words = headers.view(">u2")
    rows[:, :6].view(">u2")[:, 2] = words[:, 1] - np.uint16(IPV4_HEADER)
    rows[:, 6] = headers[:, 9]
    rows[:, 7] = headers[:, 8]
    rows[:, 8:18] = rows[:, 24:34] = 0
    rows[:, 18:20] = rows[:, 34:36] = 0xFF
    rows[:, 20:24] = headers[:, 12:16]
    rows[:, 36:40] = headers[:, 16:20]


def with_checksum(header: U8, tos: int, ttl: int = 64) -> bytes:
    """One header as it goes out, its checksum worked out."""
    data = bytearray(header.tobytes())
    data[1], data[8] = tos, ttl
    total = sum(struct.unpack("!10H", data))
    total = (total & 0xFFFF) + (total >> 16)
    data[10:12] = (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    return bytes(data)
