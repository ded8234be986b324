"""Port status updates and responses of peer nodes that came while Python was away: they wait for it."""

from __future__ import annotations

from mrc.endpoint.counters import Counters
from mrc.endpoint.parts.numbers import column
from mrc.wire import octets
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import HEADER_ROOM

# So many wait, and of each its headers: those of an operation are shorter.
ROOM = 64
_HEADER_ROOM = HEADER_ROOM


class PutAside:
    """`batch` are those that wait; row `i` came at `arrived_at[i]`, ns. What finds no room is dropped and counted.

    There is none before `make_room`: who lets Python be away calls it.
    """

    __slots__ = ("_counters", "_flat", "_lengths", "_ports", "_room", "arrived_at", "batch")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._room = 0
        self._have_room(0)

    def make_room(self) -> None:
        """Have room for `ROOM` packets."""
        if not self._room:
            self._have_room(ROOM)

    def _have_room(self, room: int) -> None:
        self._flat = memoryview(bytearray(room * HEADER_ROOM))
        self._lengths, self._ports = column(room), column(room)
        self.batch = ReceivedBatch(self._flat, HEADER_ROOM, 0, self._lengths, self._ports, column(room))
        self.arrived_at = column(room)
        self._room = room

    def put(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """Let a copy of this one wait."""
        place = self.batch.count
        if place == self._room:
            self._counters.over_rate += 1
            return
        self._lengths[place] = min(batch.lengths[row], _HEADER_ROOM)
        octets.copy(self._flat, place * _HEADER_ROOM, batch.flat, batch.row(row), self._lengths[place])
        self._ports[place] = batch.ports[row]
        self.arrived_at[place] = now
        self.batch.count = place + 1

    def forget(self) -> None:
        """They wait no more."""
        self.batch.count = 0
