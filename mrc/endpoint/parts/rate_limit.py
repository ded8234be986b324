# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A bound on what others can make this endpoint do: so many at once, and so many a second after that."""

from __future__ import annotations

from mrc.endpoint.counters import Counters

SECOND = 1_000_000_000


def granted(paid_until: int, burst_ns: int, interval_ns: int, wanted: int, now: int) -> int:
    """How many of `wanted` may pass at `now`, all times in ns. Each pays for one interval; what has passed is paid for
    until `paid_until`, which is not before `now` and at most `burst_ns` after it."""
    return min(wanted, (now + burst_ns - paid_until) // interval_ns)


class RateLimit:
    """`burst` may pass at once, `per_second` in the long run; both at least 1. `refused` counts the others."""

    def __init__(self, burst: int, per_second: int) -> None:
        self._interval_ns: int = max(1, SECOND // per_second)
        self._burst_ns = burst * self._interval_ns
        # What has passed is paid for until then, ns.
        self._paid_until = 0
        self.refused = 0

    def take(self, wanted: int, now: int) -> int:
        """How many of `wanted` may pass now, at `now` ns; they count as passed."""
        paid_until = max(self._paid_until, now)
        passed = granted(paid_until, self._burst_ns, self._interval_ns, wanted, now)
        self._paid_until = paid_until + passed * self._interval_ns
        self.refused += wanted - passed
        return passed

    def take_counted(self, wanted: int, now: int, counters: Counters) -> int:
        """`take`; the others count as `over_rate`."""
        passed = self.take(wanted, now)
        counters.over_rate += wanted - passed
        return passed
