# SPDX-License-Identifier: BSD-2-Clause
"""IPv4 packets in the IPv6-shaped rows of a batch.

A row has 40 bytes of IP header whatever carried the packet. For IPv4 its addresses are IPv4-mapped
(::ffff:a.b.c.d), and the real header, which the ICRC covers (wire.md section 9), would lie in bytes 20 to 39, right in
front of UDP. What we send has no options, identification 0 and "don't fragment"; what we receive keeps the header it
came with.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache

from mrc.wire.headers import HEADERS

IPV4_HEADER: int = HEADERS["ipv4"].length
IPV4_AT: int = HEADERS["ipv6"].length - IPV4_HEADER  # where a row would hold the real header
NO_OPTIONS = 0x45  # version 4, header of five words
_MAPPED = 0xFFFF << 32
DONT_FRAGMENT = 0x4000


@lru_cache(1024)
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


# What the ICRC sets to ones in an IPv4 header without options.
IPV4_ICRC_MASK = HEADERS["ipv4"].pack({"tos": 0xFF, "ttl": 0xFF, "chksum": 0xFFFF})


def with_checksum(header: bytes, tos: int, ttl: int = 64) -> bytes:
    """One header as it goes out, its checksum worked out."""
    data = bytearray(header)
    data[1], data[8] = tos, ttl
    total = sum(struct.unpack("!10H", data))
    total = (total & 0xFFFF) + (total >> 16)
    data[10:12] = (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    return bytes(data)
