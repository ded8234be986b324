"""The minimum of what was seen lately, for a base RTT that may rise again."""

from __future__ import annotations

from collections import deque

_PARTS = 8


class WindowedMinimum:
    """The least value of the last `window` units of time, or of all time with None.

    A value is remembered for `window` to 1 1/8 of it: time is cut into parts and each keeps its least value, so that a
    step costs the same however many values there were. Times must not go back. `initial` counts as a value that came
    with the first one.
    """

    __slots__ = ("_initial", "_least", "_part_length")

    def __init__(self, window: int | None, initial: int | None = None) -> None:
        self._part_length = None if window is None else max(window // _PARTS, 1)
        self._initial = initial
        # (part of time, least value in it), oldest first. A value that a later one undercuts is left out, so the
        # values rise and the first is the minimum.
        self._least: deque[tuple[int, int]] = deque()

    def update(self, now: int, value: int) -> int:
        """Take a value in. Returns the minimum."""
        if self._initial is not None:
            value, self._initial = min(value, self._initial), None
        least = self._least
        part = 0 if self._part_length is None else now // self._part_length
        while least and least[0][0] < part - _PARTS:
            least.popleft()
        while least and least[-1][1] >= value:
            least.pop()
        if not least or least[-1][0] != part:
            least.append((part, value))
        return least[0][1]
