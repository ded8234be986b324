# SPDX-License-Identifier: BSD-2-Clause
"""Source, destination and path of many packets, each of which is worked out once."""

from __future__ import annotations

import numpy as np

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.stacks import Stack
from mrc.capture.ends import NO_PATH, Ends, ends_of
from mrc.capture.frames import I64, U8, Bools, rows_at
from mrc.wire.opcodes import FIRST_MRC_OPCODE
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

TEXTS_KEPT = 1 << 16


class ColumnEnds:
    """`mrc.capture.ends.ends_of` for runs of packets; what follows from the same bytes is kept."""

    def __init__(self, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self._profile = profile
        self._known: dict[bytes, Ends] = {}

    def of(self, columns: Columns, row: int, key: bytes) -> Ends:
        """Source, destination and path of a packet; `key` is that of `ends_keys`."""
        ends = self._known.get(key) if key else None
        if ends is None:
            ends = ends_of(columns.walked(row), self._profile)
            if key:
                if len(self._known) >= TEXTS_KEPT:
                    self._known.clear()
                self._known[key] = ends
        return ends

    def paths(self, columns: Columns, rows: I64) -> list[str | None]:
        """The path of each of these rows, None for a packet that has none."""
        wanted = np.zeros(len(columns), np.bool_)
        wanted[rows] = True
        keys = ends_keys(columns, wanted)
        paths = [self.of(columns, row, keys[row])[2] for row in rows.tolist()]
        return [None if path == NO_PATH else path for path in paths]


def ends_keys(columns: Columns, wanted: Bools) -> list[bytes]:
    """For each packet the bytes from which its ends follow; empty where they are worked out afresh."""
    keys = [b""] * len(columns)
    for stack, rows in columns.quick_by_stack(wanted):
        parts = _key_parts(columns, stack, rows)
        if parts is not None:
            packed = np.ascontiguousarray(np.concatenate(parts, axis=1))
            for row, key in zip(rows.tolist(), packed.view(f"V{packed.shape[1]}")[:, 0].tolist(), strict=True):
                keys[row] = key
    return keys


def _key_parts(columns: Columns, stack: Stack, rows: I64) -> list[U8] | None:
    """Columns of bytes that together decide source, destination and path."""
    data, start = columns.frames.data, columns.frames.start[rows]
    if not stack.ip or stack.udp_at is None or stack.transport_at is None:
        return None
    carriers = [name for name, at in stack.layers if name in ("ipv4", "ipv6", "srh") and at >= stack.ip[0]]
    first, last = stack.ip[0], stack.ip[-1]
    if carriers == ["ipv6", "ipv6"]:
        return [rows_at(data, start + first + 24, 16), rows_at(data, start + last + 8, 32)]
    if carriers in (["ipv6"], ["ipv4"]):
        six = carriers == ["ipv6"]
        parts = [rows_at(data, start + first + (8 if six else 12), 32 if six else 8)]
        # The path of an MRC packet is its EV: source port and flow label.
        mrc = (data[start + stack.transport_at] >= FIRST_MRC_OPCODE)[:, None]
        parts.append(np.where(mrc, rows_at(data, start + stack.udp_at, 2), 0).astype(np.uint8))
        if six:
            parts.append(np.where(mrc, rows_at(data, start + first + 2, 2), 0).astype(np.uint8))
        return [*parts, mrc.astype(np.uint8)]
    return None
