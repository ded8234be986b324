"""The lines of `mrc.capture.summary.Summary`, for a run of packets at a time."""

from __future__ import annotations

import numpy as np

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.stacks import Stack
from mrc.capture.columns.words import info_of_all
from mrc.capture.frames import I64, NO_TIME, U8, Bools, rows_at
from mrc.capture.summary import Summary
from mrc.wire.opcodes import FIRST_MRC_OPCODE
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_TEXTS_KEPT = 1 << 16
Ends = tuple[str, str, str]


class Lines:
    """Lines for the packets of one capture, a run at a time: what `Summary.line` says of each."""

    def __init__(self, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self._summary = Summary(profile)
        # By what decides source, destination and path: these three, and aligned to the widths of the moment.
        self._ends: dict[bytes, Ends] = {}
        self._aligned: dict[bytes, str] = {}

    def heading(self) -> str:
        """The line to print above the first."""
        return self._summary.heading()

    def lines(self, columns: Columns, rows: I64 | None = None) -> list[str]:
        """The lines of these packets of a run (all, by default), without line breaks."""
        times = self._times(columns)
        if rows is None:
            rows = np.arange(len(columns))
        if not len(rows):
            return []
        wanted = np.zeros(len(columns), np.bool_)
        wanted[rows] = True
        words = info_of_all(columns, wanted)
        keys = self._keys(columns, wanted)
        aligned, lines, first = self._aligned, [], columns.first
        for row in rows.tolist():
            key = keys[row]
            ends = aligned.get(key)
            if ends is None:
                ends = self._align(key, columns, row)
            lines.append(f"{first + row:>6} {times[row]}  {ends}  {words[row]}")
        return lines

    def _times(self, columns: Columns) -> list[str]:
        time_ns = columns.frames.time_ns
        there = time_ns != NO_TIME
        if self._summary.start is None and there.any():
            self._summary.start = int(time_ns[there.argmax()])
        since = (time_ns - (self._summary.start or 0)) / 1e9
        times = list(map("{:>12.6f}".format, since.tolist()))
        for row in np.flatnonzero(~there).tolist():
            times[row] = f"{'-':>12}"
        return times

    def _align(self, key: bytes, columns: Columns, row: int) -> str:
        ends = self._ends.get(key) if key else None
        if ends is None:
            ends = self._summary.ends(columns.walked(row))
            if key:
                if len(self._ends) >= _TEXTS_KEPT:
                    self._ends.clear()
                    self._aligned.clear()
                self._ends[key] = ends
        if self._summary.widen(ends):
            self._aligned.clear()
        text = self._summary.aligned(ends)
        if key:
            self._aligned[key] = text
        return text

    def _keys(self, columns: Columns, wanted: Bools) -> list[bytes]:
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
    carriers = [name for name, _ in stack.layers if name in ("ipv4", "ipv6", "srh")]
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
