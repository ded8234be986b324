# SPDX-License-Identifier: BSD-2-Clause
"""Addresses and times as people write them."""

from __future__ import annotations

import socket


def ipv6_text(address: bytes) -> str:
    """The usual text of 16 bytes."""
    return socket.inet_ntop(socket.AF_INET6, address)


def ipv4_text(address: bytes) -> str:
    """The usual text of 4 bytes."""
    return socket.inet_ntop(socket.AF_INET, address)


def address_text(address: bytes) -> str:
    """The usual text of 4 or 16 bytes."""
    return ipv4_text(address) if len(address) == 4 else ipv6_text(address)


def seconds_text(time_ns: int, digits: int = 9) -> str:
    """Nanoseconds as seconds with so many digits behind the point; further ones are cut off."""
    whole, part = divmod(abs(time_ns) // 10 ** (9 - digits), 10**digits)
    return f"{'-' if time_ns < 0 else ''}{whole}.{part:0{digits}d}"


def segments(data: bytes, at: int) -> list[str]:
    """The segment list of the SRH at `at`, in wire order: the last segment of the path first.

    Only the segments that lie inside the header and inside `data`.
    """
    room = min(8 * data[at + 1], len(data) - at - 8) // 16
    starts = range(at + 8, at + 8 + 16 * min(data[at + 4] + 1, room), 16)
    return [ipv6_text(data[start : start + 16]) for start in starts]
