# SPDX-License-Identifier: BSD-2-Clause
"""Bytes over time: a count that only grows, sampled now and then, and what can be read off it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mrc.errors import CallerError

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_NS = 1_000_000_000
_BITS = 8


class ByteSeries:
    """`total` bytes had come at each of `at_ns` (CLOCK_MONOTONIC, rising). Raises CallerError for fewer than two."""

    def __init__(self, at_ns: Sequence[int] | I64, total: Sequence[int] | I64) -> None:
        self.at_ns: I64 = np.asarray(at_ns, np.int64)
        self.total: I64 = np.asarray(total, np.int64)
        if len(self.at_ns) < 2 or len(self.at_ns) != len(self.total):
            raise CallerError(f"a series needs two samples or more, got {len(self.at_ns)}")

    @property
    def first_ns(self) -> int:
        return int(self.at_ns[0])

    @property
    def last_ns(self) -> int:
        return int(self.at_ns[-1])

    def bytes_at(self, at_ns: F64 | I64 | float) -> F64:
        """The count at these times, between samples in proportion."""
        return np.asarray(np.interp(at_ns, self.at_ns, self.total))

    def rate_bps(self, from_ns: int, until_ns: int) -> float:
        """Bits a second over an interval. Raises CallerError for an empty one."""
        if until_ns <= from_ns:
            raise CallerError(f"no rate over an interval of {until_ns - from_ns} ns")
        before, after = self.bytes_at(np.array([from_ns, until_ns], np.int64))
        return float(after - before) * _BITS * _NS / (until_ns - from_ns)

    def rates_bps(self, from_ns: int, until_ns: int, width_ns: int) -> tuple[F64, F64]:
        """(middles in ns, rates) of intervals of one width, one after the other; a rest at the end is left out."""
        edges = np.arange(from_ns, until_ns + 1, width_ns)
        counts = self.bytes_at(edges)
        return (edges[:-1] + width_ns / 2).astype(np.float64), np.diff(counts) * _BITS * _NS / width_ns

    def reached_after_ns(self, from_ns: int, until_ns: int, rate_bps: float, width_ns: int) -> int | None:
        """How long after `from_ns` the first interval of `width_ns` begins, sample by sample, that has this rate.

        None when none does before `until_ns`.
        """
        starts = self.at_ns[(self.at_ns >= from_ns) & (self.at_ns + width_ns <= until_ns)]
        starts = np.concatenate([np.array([from_ns], np.int64), starts])
        rates = (self.bytes_at(starts + width_ns) - self.bytes_at(starts)) * _BITS * _NS / width_ns
        fast = np.flatnonzero(rates >= rate_bps)
        return int(starts[fast[0]]) - from_ns if len(fast) else None

    def longest_stall_ns(self, from_ns: int, until_ns: int) -> int:
        """The longest time without a new byte, as far as it lies between these times."""
        grew = np.flatnonzero(np.diff(self.total) > 0) + 1
        moments = self.at_ns[grew]
        moments = moments[(moments > from_ns) & (moments < until_ns)]
        edges = np.concatenate([np.array([from_ns]), moments, np.array([until_ns])])
        return int(np.diff(edges).max())
