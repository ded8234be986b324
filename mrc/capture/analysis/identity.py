# SPDX-License-Identifier: BSD-2-Clause
"""Which packets of a capture can be the same packet: a number from what no router changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.columns import Columns
from mrc.capture.frames import I64, rows_at
from mrc.wire.headers import HEADERS

U32 = npt.NDArray[np.uint32]

# Odd numbers without a pattern, one for each 8 bytes of headers. The longest (BTH to AETH and all that can follow) take
# fewer than 16.
_FACTORS: npt.NDArray[Any] = np.array(
    [(0x9E3779B97F4A7C15 * (2 * number + 1) ^ 0xD1B54A32D192ED03) & (1 << 64) - 1 | 1 for number in range(24)],
    np.uint64,
)
# Fifth byte of the BTH: FECN and BECN, which a switch may set.
_MARKS_AT = 4
_IPV4_ID_AT = 4


def identities(columns: Columns, ev: I64) -> U32:
    """uint32 [n]: equal for two sightings of one packet, 0 for packets without a whole transport header.

    Made of the transport headers, the EV and the identification of IPv4. Not of hop limits, traffic class, outer
    headers and checksums, which routers change; nor of the payload, of which a capture may have kept less. A packet
    that a switch trimmed differs from the whole one.
    """
    mixed = np.zeros(len(columns), np.uint64)
    data, start = columns.frames.data, columns.frames.start
    for index, stack in enumerate(columns.stacks):
        first = stack.transport_index
        if first is None or first >= len(stack.layers):
            continue
        rows = np.flatnonzero(columns.stack == index)
        begin = stack.layers[first][1]
        name, last = stack.layers[-1]
        length = last + HEADERS[name].length - begin
        words = (length + 7) // 8
        heads = rows_at(data, start[rows] + begin, 8 * words)
        heads[:, length:] = 0
        heads[:, _MARKS_AT] = 0
        found = (heads.view(np.uint64) * _FACTORS[:words]).sum(axis=1, dtype=np.uint64)
        if stack.ip and ("ipv4", stack.ip[-1]) in stack.layers:
            number = rows_at(data, start[rows] + stack.ip[-1] + _IPV4_ID_AT, 2).view(np.uint16)[:, 0]
            found += number.astype(np.uint64) * _FACTORS[-1]
        mixed[rows] = found
    there = mixed != 0
    mixed += ev.astype(np.uint64) * _FACTORS[-2]
    mixed += columns.trimmed * _FACTORS[-3]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FACTORS[-4]
    return np.where(there, mixed >> np.uint64(32), 0).astype(np.uint32)
