# SPDX-License-Identifier: BSD-2-Clause
"""The IPv4 headers (`mrc.wire.ipv4`) and segment routing headers (`mrc.wire.srh`) of many rows at once, with numpy."""

from __future__ import annotations

import numpy as np

from mrc.wire.fields import U8, Bools
from mrc.wire.ipv4 import DONT_FRAGMENT, IPV4_HEADER, NO_OPTIONS
from mrc.wire.srh import SRH_HEAD, SRH_LENGTH
from mrc.wire.usid import BLOCK_BITS

_UDP = 17
_BLOCK = BLOCK_BITS // 8
_ADDRESS = 16


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


def split_rows(addresses: U8, headers: U8) -> None:
    """`mrc.wire.srh.two_containers` for many packets, in place.

    `addresses` is uint8 [n, 16]: each becomes the first container. `headers` is uint8 [n, SRH_LENGTH] from
    `new_headers`: each gets the following one.
    """
    usids = addresses[:, _BLOCK:].view(">u2")
    rows, last = np.arange(len(usids)), (usids != 0).sum(axis=1) - 1
    segments = headers[:, SRH_LENGTH - _ADDRESS :]
    segments[:, :_BLOCK] = addresses[:, :_BLOCK]
    segments[:, _BLOCK:].view(">u2")[:, 0] = usids[rows, last]
    usids[rows, last] = 0


def new_headers(count: int) -> U8:
    """Memory for `count` headers, uint8 [count, SRH_LENGTH], all but their segments written."""
    headers = np.zeros((count, SRH_LENGTH), np.uint8)
    headers[:, : len(SRH_HEAD)] = np.frombuffer(SRH_HEAD, np.uint8)
    return headers
