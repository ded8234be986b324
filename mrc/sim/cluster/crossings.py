# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Packets on their way from one shard of a cluster to others (mrc.sim.cluster.sharding).

They are put here while shards compute apart, and taken when all have come to the same time.
"""

from __future__ import annotations

from mrc.endpoint.parts import interpreter
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.sim.cluster.columns import numbers, short_numbers
from mrc.sim.cluster.columns import octets as octet_column
from mrc.sim.cluster.event_wheel import EventWheel
from mrc.sim.cluster.packet_pool import NEXT, ROOM, WIDTH, PacketPool
from mrc.wire import octets
from mrc.wire.compiled import i32s, i64s, may_raise, u8s, with_gil

_LEAST_ROOM = 1 << 8
# To give up the interpreter's lock for fewer packets costs more than it brings.
_MANY = 256


class Crossings:
    """`used` packets of one shard, with the times at which they arrive, in a list for each of the others."""

    def __init__(self, shards: int) -> None:
        self._room = _LEAST_ROOM
        self._headers: u8s = octet_column(self._room * ROOM)
        self._cells: i32s = short_numbers(self._room * WIDTH)
        self._times: i64s = numbers(self._room)
        # By shard: the first and the last row, each as one more than its number.
        self._firsts: i32s = short_numbers(shards)
        self._lasts: i32s = short_numbers(shards)
        # The shards that there are packets for.
        self._destinations: i32s = short_numbers(shards)
        self._destination_count = 0
        self._first_at: int = FOREVER
        self.used = 0

    def shards(self) -> may_raise[list[int]]:
        """The shards that there are packets for."""
        return [self._destinations[place] for place in range(self._destination_count)]

    def earliest(self) -> int:
        """When the first of all packets arrives, ns; FOREVER without any."""
        return self._first_at

    def put(self, shard: int, pool: PacketPool, packet: int, at: int) -> None:
        """A packet of `pool` arrives in another shard at `at`; here it is no more."""
        if self.used == self._room:
            self._grow()
        row = self.used
        self.used = row + 1
        octets.copy(self._headers, row * ROOM, pool.headers, packet * ROOM, ROOM)
        for number in range(WIDTH):
            self._cells[row * WIDTH + number] = pool.cells[packet * WIDTH + number]
        self._cells[row * WIDTH + NEXT] = 0
        self._times[row] = at
        if self._firsts[shard]:
            self._cells[(self._lasts[shard] - 1) * WIDTH + NEXT] = row + 1
        else:
            self._firsts[shard] = row + 1
            self._destinations[self._destination_count] = shard
            self._destination_count += 1
        self._lasts[shard] = row + 1
        if at < self._first_at:
            self._first_at = at
        pool.give(packet)

    def take(self, shard: int, pool: PacketPool, wheel: EventWheel) -> may_raise[None]:
        """All packets for a shard are its own from now on, in the order in which they were put here."""
        if self.used < _MANY:
            self._take(shard, pool, wheel)
            return
        state: int = interpreter.let_go()
        self._take(shard, pool, wheel)
        interpreter.take_back(state)

    def _take(self, shard: int, pool: PacketPool, wheel: EventWheel) -> None:
        following = self._firsts[shard]
        while following:
            row = following - 1
            packet = pool.take()
            octets.copy(pool.headers, packet * ROOM, self._headers, row * ROOM, ROOM)
            for number in range(WIDTH):
                pool.cells[packet * WIDTH + number] = self._cells[row * WIDTH + number]
            wheel.add_first(self._times[row], packet)
            following = self._cells[row * WIDTH + NEXT]

    def clear(self) -> None:
        """All have been taken."""
        self.used = 0
        self._first_at = FOREVER
        for place in range(self._destination_count):
            self._firsts[self._destinations[place]] = 0
        self._destination_count = 0

    def _grow(self) -> with_gil[None]:
        room = 2 * self._room
        headers, cells, times = octet_column(room * ROOM), short_numbers(room * WIDTH), numbers(room)
        headers[: self._room * ROOM] = self._headers
        cells[: self._room * WIDTH] = self._cells
        times[: self._room] = self._times
        self._headers, self._cells, self._times, self._room = headers, cells, times, room
