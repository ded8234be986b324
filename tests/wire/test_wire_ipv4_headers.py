# SPDX-License-Identifier: BSD-2-Clause
"""The IPv4 header of a packet and the IPv6-shaped one of its row, each made from the other (RFC 791, 4291)."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from vector_forms import octets

from mrc.wire.header_rows import headers_to_send, mapped_rows, shape_rows
from mrc.wire.ipv4 import with_checksum

# ToS 2e, total length 0134 = 308, id abcd, DF, TTL 63, UDP, checksum 5a5a; 203.0.113.200 to 198.51.100.7.
IPV4 = octets("45 2e 0134 abcd 4000 3f 11 5a5a cb0071c8 c6336407")
# Version 6, traffic class 2e, no flow label, payload length 308 - 20 = 288 = 0120, UDP, hop limit 63, mapped addresses.
IPV6_SHAPED = octets(
    """62 e0 0000 0120 11 3f
       00000000000000000000 ffff cb0071c8
       00000000000000000000 ffff c6336407"""
)
STALE = 0xA5


def test_every_byte_of_the_mapped_prefix_counts() -> None:
    """RFC 4291: ten bytes of zeros, two of ones; the next four may be anything."""
    row = np.zeros((1, 40), np.uint8)
    row[0, 18:20] = 0xFF
    row[0, 20:24] = (192, 0, 2, 1)
    assert mapped_rows(row).tolist() == [True]
    for at in range(8, 20):
        other = row.copy()
        other[0, at] ^= 0x01
        assert mapped_rows(other).tolist() == [False], at
    for at in (0, 7, 20, 23, 24, 39):
        other = row.copy()
        other[0, at] ^= 0xFF
        assert mapped_rows(other).tolist() == [True], at


def test_a_row_used_again_holds_the_new_header_and_nothing_of_the_old_one() -> None:
    """Forty bytes; what follows them, UDP and all, is not touched."""
    rows = np.full((3, 64), STALE, np.uint8)
    headers = np.stack([np.frombuffer(IPV4, np.uint8)] * 3)
    shape_rows(rows[:2], headers[:2])
    assert bytes(rows[0]) == bytes(rows[1]) == IPV6_SHAPED + bytes([STALE]) * 24
    assert bytes(rows[2]) == bytes([STALE]) * 64
    assert bytes(headers[0]) == IPV4


def test_the_header_to_send_says_what_the_row_says() -> None:
    """Identification 0, "don't fragment", length plus 20; ToS, TTL and checksum are filled in last."""
    rows = np.full((2, 60), STALE, np.uint8)
    rows[:, :40] = np.frombuffer(IPV6_SHAPED, np.uint8)
    rows[1, 4:6] = (0x01, 0xF0)  # 496 + 20 = 516 = 0204: the low byte carries over
    expected = octets("45 00 0134 0000 4000 00 11 0000 cb0071c8 c6336407")
    headers = headers_to_send(rows)
    assert bytes(headers[0]) == expected
    assert bytes(headers[1]) == expected[:2] + b"\x02\x04" + expected[4:]
    assert headers.dtype == np.uint8


def _ones_complement_sum(data: bytes) -> int:
    """RFC 1071: add 16-bit words, and every carry out of 16 bits back in at the bottom, one addition at a time."""
    total = 0
    for at in range(0, len(data), 2):
        total += data[at] << 8 | data[at + 1]
        if total > 0xFFFF:
            total -= 0xFFFF
    return total


@given(st.binary(min_size=8, max_size=8), st.integers(28, 0xFFFF), st.integers(0, 255), st.integers(0, 255))
@example(bytes([255] * 8), 0xFFFF, 255, 255)
@example(bytes([255, 255, 255, 255, 0x7A, 0xED, 0, 0]), 28, 0, 64)
@example(bytes(8), 28, 0, 0)
def test_the_words_of_a_sent_header_add_up_to_all_ones(addresses: bytes, length: int, tos: int, ttl: int) -> None:
    """RFC 791: the checksum makes the ones' complement sum of the ten words 0xffff; MRC-WIRE-04."""
    header = b"\x45\x00" + length.to_bytes(2, "big") + bytes.fromhex("000040000011") + b"\0\0" + addresses
    sent = with_checksum(header, tos, ttl)
    assert _ones_complement_sum(sent) == 0xFFFF
    assert sent[:1] + sent[2:8] + sent[9:10] + sent[12:] == header[:1] + header[2:8] + header[9:10] + header[12:]
    assert (sent[1], sent[8]) == (tos, ttl)


def test_a_sum_that_carries_twice() -> None:
    """4500 + 001c + 4000 + 0011 + ffff + 7ad1 + 0002 = 1ffff; ffff + 1 = 10000; 0000 + 1 = 0001, so it is fffe."""
    header = octets("45 00 001c 0000 4000 00 11 0000 ffff0000 7ad10002")
    assert with_checksum(header, 0)[8] == 64
    assert with_checksum(header, 0, 0)[10:12] == b"\xff\xfe"
