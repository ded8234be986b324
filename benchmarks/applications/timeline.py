# SPDX-License-Identifier: BSD-2-Clause
"""How far a receiver was at what time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Span = tuple[int, int]


class Timeline:
    """Samples of (time in ns, bytes placed until then), at least one, in the order they were taken.

    Between two samples bytes count as placed steadily.
    """

    def __init__(self, samples: Sequence[Sequence[int]]) -> None:
        # Two threads take them: one may have been kept from telling what it had read.
        ordered = sorted((time, placed) for time, placed in samples)
        self._times = [time for time, _ in ordered]
        self._placed = [placed for _, placed in ordered]

    def placed(self, when: int) -> float:
        """Bytes placed until `when`."""
        after = bisect_right(self._times, when)
        if after == 0:
            return self._placed[0]
        if after == len(self._times):
            return self._placed[-1]
        since, till = self._times[after - 1], self._times[after]
        before = self._placed[after - 1]
        return before + (self._placed[after] - before) * (when - since) / (till - since)

    def during(self, span: Span) -> float:
        """Bytes placed in a span of time."""
        return self.placed(span[1]) - self.placed(span[0])

    def gbps(self, span: Span, without: Span | None = None) -> float:
        """Goodput in a span of time, leaving out what of it lies in another one."""
        taken, placed = span[1] - span[0], self.during(span)
        if without is not None:
            left_out = (max(span[0], without[0]), min(span[1], without[1]))
            if left_out[0] < left_out[1]:
                taken, placed = taken - (left_out[1] - left_out[0]), placed - self.during(left_out)
        return placed * 8 / taken if taken > 0 else 0.0

    def back_after_ms(self, when: int) -> float | None:
        """Milliseconds from `when` until a sample shows more placed than the first one from then on; None: none does.

        So it is as exact as samples are frequent.
        """
        first = bisect_left(self._times, when)
        for place in range(first + 1, len(self._times)):
            if self._placed[place] > self._placed[first]:
                return (self._times[place] - when) / 1e6
        return None
