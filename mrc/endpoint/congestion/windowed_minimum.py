# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The minimum of what was seen lately, for a base RTT that may rise again."""

from __future__ import annotations

from mrc.wire.compiled import i64s

_PARTS = 8
# Room for the least value of each part that counts, and one more.
_ROOM, _SLOTS = 16, 15
_BYTES = 8


class WindowedMinimum:
    """The least value of the last `window` units of time, or of all time with None.

    A value is remembered for `window` to 1 1/8 of it: time is cut into parts and each keeps its least value, so that a
    step costs the same however many values there were. Times must not go back. `initial` counts as a value that came
    with the first one.
    """

    _part_length: int
    _initial: int
    _begin: int
    _end: int
    _has_initial: bool
    _parts: i64s
    _values: i64s

    __slots__ = tuple(__annotations__)

    def __init__(self, window: int | None, initial: int | None = None) -> None:
        # 0: there is one part.
        self._part_length = 0 if window is None else max(window // _PARTS, 1)
        self._has_initial = initial is not None
        self._initial = initial or 0
        # Rings of parts of time and the least value in each, from _begin to _end, oldest first. A value that a later
        # one undercuts is left out, so the values rise and the first is the minimum.
        self._parts = memoryview(bytearray(_ROOM * _BYTES)).cast("q")
        self._values = memoryview(bytearray(_ROOM * _BYTES)).cast("q")
        self._begin = self._end = 0

    def update(self, now: int, value: int) -> int:
        """Take a value in. Returns the minimum."""
        if self._has_initial:
            value, self._has_initial = min(value, self._initial), False
        part = now // self._part_length if self._part_length else 0
        while self._begin < self._end and self._parts[self._begin & _SLOTS] < part - _PARTS:
            self._begin += 1
        while self._begin < self._end and self._values[(self._end - 1) & _SLOTS] >= value:
            self._end -= 1
        if self._begin == self._end or self._parts[(self._end - 1) & _SLOTS] != part:
            self._parts[self._end & _SLOTS] = part
            self._values[self._end & _SLOTS] = value
            self._end += 1
        return self._values[self._begin & _SLOTS]
