# SPDX-License-Identifier: BSD-2-Clause
"""Virtual time: a heap of events, each a handler and its one argument.

Time is an integer of nanoseconds that moves from event to event. Events of one instant run in the order of their ranks,
those of one rank in the order in which they were scheduled.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

Event = tuple[int, int, int, Callable[[Any], None], Any]
# The rank of an event that has none of its own: behind those that have one.
LAST = 1 << 62


class Clock:
    """`now` in ns. Code that changes what a stop condition may look at sets `touched`."""

    __slots__ = ("_events", "_order", "now", "touched")

    def __init__(self) -> None:
        self.now = 0
        self.touched = False
        self._events: list[Event] = []
        self._order = itertools.count()

    def at(self, when: int, handler: Callable[[Any], None], argument: object = None, rank: int = LAST) -> None:
        """Call `handler(argument)` at `when`, ns, not before now."""
        when = when if when > self.now else self.now
        heapq.heappush(self._events, (when, rank, next(self._order), handler, argument))

    @property
    def next_at(self) -> int | None:
        """When the next event is, ns; None when there is none."""
        return self._events[0][0] if self._events else None

    def run(self, until: int, stop: Callable[[], bool] | None = None) -> bool:
        """Run the events up to and including time `until`, or until `stop()` holds. True when `stop()` did.

        `stop` is asked at the start, and after each event that touched an endpoint.
        """
        if stop is not None and stop():
            return True
        events, pop = self._events, heapq.heappop
        self.touched = False
        while events and events[0][0] <= until:
            self.now, _, _, handler, argument = pop(events)
            handler(argument)
            if self.touched:
                self.touched = False
                if stop is not None and stop():
                    return True
        self.now = max(self.now, until)
        return False
