# SPDX-License-Identifier: BSD-2-Clause
"""The segment routing header beside a uSID address: two containers instead of one (wire.md section 11, RFC 8754).

The path stays the list of uSIDs it is without one. On the wire its last uSID, the port towards the host, moves into a
container of its own, which the header lists: `leaf spine leaf` in the destination address, `host port` in the header.
The leaf at which the first container ends copies the second one into the destination.
"""

from __future__ import annotations

from mrc.wire.usid import BLOCK_BITS, USID_BITS

SRH_LENGTH = 24
IPV6_IN_IPV6, ROUTING = 41, 43
ROUTING_TYPE = 4
# Next header, length in 8 bytes beyond the first 8, routing type, segments left, last entry, flags, tag (2 bytes).
SRH_HEAD = bytes((IPV6_IN_IPV6, SRH_LENGTH // 8 - 1, ROUTING_TYPE, 1, 0, 0, 0, 0))


def two_containers(address: int) -> tuple[int, int]:
    """(first, following) container of a path given as one container of two uSIDs or more: the last one moves."""
    shift = 0
    while not address >> shift & 0xFFFF:
        shift += USID_BITS
    last = address >> shift & 0xFFFF
    block = address >> (128 - BLOCK_BITS)
    return address & ~(0xFFFF << shift), (block << USID_BITS | last) << (128 - BLOCK_BITS - USID_BITS)
