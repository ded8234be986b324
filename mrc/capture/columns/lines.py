# SPDX-License-Identifier: BSD-2-Clause
"""The lines of `mrc.capture.summary.Summary`, for a run of packets at a time."""

from __future__ import annotations

import numpy as np

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.ends import TEXTS_KEPT, ColumnEnds, ends_keys
from mrc.capture.columns.words import info_of_all
from mrc.capture.frames import I64, NO_TIME
from mrc.capture.summary import Summary
from mrc.capture.texts import seconds_text
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_HALF = 1 << 62


class Lines:
    """Lines for the packets of one capture, a run at a time: what `Summary.line` says of each."""

    def __init__(self, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self._summary = Summary(profile)
        self._ends = ColumnEnds(profile)
        # By what decides source, destination and path: these three aligned to the widths of the moment.
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
        keys = ends_keys(columns, wanted)
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
        summary = self._summary
        summary.digits = digits = max(summary.digits, columns.frames.digits)
        # Differences of two times of 64 bits may take 65.
        since = np.where(there, time_ns - (summary.start or 0), 0)
        start = summary.start or 0
        if np.any(since < 0) or not -_HALF < start < _HALF:
            times = [seconds_text(ns - start, digits).rjust(summary.time_width) for ns in time_ns.tolist()]
        else:
            form = f"%{summary.time_width - digits - 1}d.%0{digits}d"
            whole, part = np.divmod(since // 10 ** (9 - digits), 10**digits)
            times = [form % pair for pair in zip(whole.tolist(), part.tolist(), strict=True)]
        for row in np.flatnonzero(~there).tolist():
            times[row] = "-".rjust(summary.time_width)
        return times

    def _align(self, key: bytes, columns: Columns, row: int) -> str:
        ends = self._ends.of(columns, row, key)
        if self._summary.widen(ends):
            self._aligned.clear()
        text = self._summary.aligned(ends)
        if key:
            if len(self._aligned) >= TEXTS_KEPT:
                self._aligned.clear()
            self._aligned[key] = text
        return text
