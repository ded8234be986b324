# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Port status updates and responses of peer nodes that came while Python was away: they wait for it."""

from __future__ import annotations

from mrc.endpoint.counters import Counters
from mrc.endpoint.parts.numbers import column
from mrc.wire import octets
from mrc.wire.compiled import i64s, python, u8s
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import HEADER_ROOM

# So many wait, and of each its headers: those of an operation are shorter.
ROOM = 64


class PutAside:
    """`batch` are the `count` that wait; row `i` came at `arrived_at[i]`, ns. What finds no room is dropped and
    counted. There is none before `make_room`: who lets Python be away calls it.
    """

    _flat: u8s
    _lengths: i64s
    _ports: i64s
    arrived_at: i64s
    batch: ReceivedBatch

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._room = self.count = 0

    def make_room(self) -> python[None]:
        """Have room for `ROOM` packets."""
        if self._room:
            return
        self._flat = memoryview(bytearray(ROOM * HEADER_ROOM))
        self._lengths, self._ports = column(ROOM), column(ROOM)
        self.batch = ReceivedBatch(self._flat, HEADER_ROOM, 0, self._lengths, self._ports, column(ROOM))
        self.arrived_at = column(ROOM)
        self._room = ROOM

    def put(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """Let a copy of this one wait."""
        place = self.count
        if place == self._room:
            self._counters.over_rate += 1
            return
        self._lengths[place] = min(batch.lengths[row], HEADER_ROOM)
        octets.copy(self._flat, place * HEADER_ROOM, batch.flat, batch.row(row), self._lengths[place])
        self._ports[place] = batch.ports[row]
        self.arrived_at[place] = now
        self.count = self.batch.count = place + 1

    def forget(self) -> python[None]:
        """They wait no more."""
        self.count = self.batch.count = 0
