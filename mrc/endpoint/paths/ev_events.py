# SPDX-License-Identifier: BSD-2-Clause
"""EV state changes for controllers: queues that never block, with a count of what each dropped (api.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from mrc.endpoint.paths.states import EvState
from mrc.endpoint.tracing import QpTrace
from mrc.records import record

_NOTHING: frozenset[EvState] = frozenset()
_GOOD, _SKIP = EvState.GOOD, EvState.SKIP
# Behind the states in `wanted_flags`: whether any is wanted.
ANY_STATE = len(EvState)


@record(frozen=True, slots=True)
class EvEvent:
    """A path:ev_state of the trace's vocabulary for a controller: an EV of QP `qpn` went to `state` at `at_ns`.

    The QP has the EV profile `profile_id`. Packets with this EV leave by `port`.
    """

    qpn: int
    ev: int
    port: int
    state: EvState
    profile_id: int = field(default=0, compare=False)
    at_ns: int = field(default=0, compare=False)


class EvEvents:
    """At most `limit` events wait in `queue`; later ones are `dropped`. Only changes to a state `wanted` are kept.

    For a queue that does not want SKIP, SKIP is no state of its own: such an EV is in use, as one in GOOD. Other queues
    can be attached: each keeps what it wants, and drops what it has no room for. `wanted_flags` say for each state
    whether this queue or one attached to it wants it; compiled code holds on to them.
    """

    __slots__ = ("_clock", "_limit", "_others", "_own", "_queue", "dropped", "wanted_flags")

    def __init__(self, limit: int, clock: Callable[[], int] = lambda: 0) -> None:
        self._limit = limit
        self._clock = clock
        self._own = _NOTHING
        self._others: tuple[EvEvents, ...] = ()
        self.wanted_flags = memoryview(bytearray(len(EvState) + 1))
        # An empty one takes more memory than all the rest of this.
        self._queue: deque[Any] | None = None
        self.dropped = 0

    @property
    def queue(self) -> deque[Any]:
        """What waits, oldest first."""
        if self._queue is None:
            self._queue = deque()
        return self._queue

    @property
    def wanted(self) -> frozenset[EvState]:
        return self._own

    @wanted.setter
    def wanted(self, states: frozenset[EvState]) -> None:
        self._own = states
        self._sum_up()

    def attach(self, other: EvEvents) -> None:
        """Let another queue have the same changes. What it wants is settled by then."""
        self._others = (*self._others, other)
        self._sum_up()

    def detach(self, other: EvEvents) -> None:
        """Safe to call twice."""
        self._others = tuple(each for each in self._others if each is not other)
        self._sum_up()

    def _sum_up(self) -> None:
        wanted = self._own.union(*(other.wanted for other in self._others))
        for state in EvState:
            self.wanted_flags[state] = state in wanted
        self.wanted_flags[ANY_STATE] = bool(wanted)

    def changed(self, qpn: int, profile_id: int, ev: int, port: int, old: EvState, new: EvState) -> None:
        """An EV went from one state to another. For queues that do not want SKIP it is GOOD."""
        at_ns = self._clock()
        for each in (self, *self._others):
            wanted = each.wanted_of(profile_id)
            before, after = old, new
            if _SKIP not in wanted:
                before, after = (_GOOD if state == _SKIP else state for state in (old, new))
            if before != after and after in wanted:
                each.put(EvEvent(qpn, ev, port, after, profile_id, at_ns))

    def wanted_of(self, profile_id: int) -> frozenset[EvState]:
        """What this queue wants of the QPs with one profile."""
        return self._own

    def put(self, event: object) -> None:
        """Keep an event, or count it as dropped."""
        if len(self.queue) < self._limit:
            self.queue.append(event)
        else:
            self.dropped += 1


@record(frozen=True, slots=True)
class EvObservers:
    """What hears of the changes of a QP's EVs, and as whose: `events` for controllers, `trace` the QP's."""

    qpn: int = 0
    profile_id: int = 0
    events: EvEvents | None = None
    trace: QpTrace | None = None
