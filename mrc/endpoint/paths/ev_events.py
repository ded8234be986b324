"""EV state changes for whoever asked for them: a queue that never blocks, with a count of what it dropped (api.md)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mrc.endpoint.paths.states import EvState

_NOTHING: frozenset[EvState] = frozenset()


@dataclass(frozen=True, slots=True)
class EvEvent:
    """An EV of QP `qpn` that leaves by `port` went to `state`: GOOD (back in use), ASSUMED_BAD or DENIED."""

    qpn: int
    ev: int
    port: int
    state: EvState


class EvEvents:
    """At most `limit` events wait in `queue`; later ones are `dropped`. Only changes to a state `wanted` are kept."""

    __slots__ = ("_limit", "dropped", "queue", "wanted")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.wanted = _NOTHING
        self.queue: deque[EvEvent] = deque()
        self.dropped = 0

    def put(self, event: EvEvent) -> None:
        if len(self.queue) < self._limit:
            self.queue.append(event)
        else:
            self.dropped += 1
