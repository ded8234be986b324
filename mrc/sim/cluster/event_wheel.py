# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What happens when: a place for each nanosecond of the near future, and in it the events of that time in order.

An event is a number: 4 * n for the arrival of packet n, 4 * n + 1 for direction n of a cable that is free again,
4 * n + 2 for host n that has something to do. A packet is in one list at a time, a direction and a host are in the
wheel once.

Packets that may come from another shard are the first of their time, in the order in which they began, and of the
directions they are on: so the order does not depend on what is computed in which shard. Everything else is in the order
in which it was scheduled.
"""

from __future__ import annotations

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.errors import CallerError
from mrc.sim.cluster.columns import numbers, short_numbers
from mrc.sim.cluster.packet_pool import LINK, NEXT, SIZE, WIDTH, PacketPool
from mrc.wire import octets
from mrc.wire.compiled import i32s, i64s, python

ARRIVAL, FREE, HOST = 0, 1, 2
LONGEST_SPAN = 1 << 24
_LEAST_SPAN = 1 << 12
_BITS = 32
_NONE = -1
# Numbers of 32 bits that are known of a direction (mrc.sim.cluster.egresses).
ROW = 16


class EventWheel:
    """Events up to `span` - 1 ns ahead; `count` of them wait. Nothing is rounded: times are whole ns."""

    def __init__(self, pool: PacketPool, directions: int, behind: memoryview, farthest_ns: int) -> None:
        """Events are scheduled up to `farthest_ns` ahead. `behind` has a place for the event behind each of as many
        `directions`, then for that behind each host. Raises CallerError where `farthest_ns` is too far.
        """
        span = _LEAST_SPAN
        while span <= farthest_ns:
            span *= 2
        if span > LONGEST_SPAN:
            raise CallerError(
                f"a packet takes up to {farthest_ns} ns from one end of a link to the other, and at most "
                f"{LONGEST_SPAN - 1} can be simulated: take a higher rate or a shorter delay"
            )
        self.span = span
        self._mask = span - 1
        self._words = span // _BITS - 1
        self._pool = pool
        self._directions = directions
        self._directions_known: i32s = short_numbers(0)
        self._next: i32s = behind
        self._heads: i32s = short_numbers(span, _NONE)
        self._tails: i32s = short_numbers(span, _NONE)
        # Those that come before the others of their time.
        self._firsts: i32s = short_numbers(span, _NONE)
        self._last_firsts: i32s = short_numbers(span, _NONE)
        # The time for which they are in order.
        self._in_order = -1
        # A bit for each place that has events.
        self._occupied: i64s = numbers(span // _BITS)
        self.count = 0
        # Everything before this time has been taken.
        self.position = 0

    def add(self, at: int, event: int) -> None:
        """Let an event happen at `at`, which is not before `position`, after all others of that time."""
        slot = at & self._mask
        self._set_next(event, _NONE)
        if self._heads[slot] == _NONE:
            self._heads[slot] = event
            self._occupy(slot)
        else:
            self._set_next(self._tails[slot], event)
        self._tails[slot] = event
        self.count += 1

    def add_first(self, at: int, packet: int) -> None:
        """Let a packet arrive at `at`, which is after `position`, before all that `add` has for that time. Among those
        that this has: first the longest, which began first, then in the order of directions."""
        slot = at & self._mask
        self._occupy(slot)
        self.count += 1
        # In what order is found out when their time has come: then they are wanted near by anyway.
        self._pool.cells[packet * WIDTH + NEXT] = _NONE
        if self._firsts[slot] == _NONE:
            self._firsts[slot] = 4 * packet
        else:
            self._pool.cells[(self._last_firsts[slot] >> 2) * WIDTH + NEXT] = 4 * packet
        self._last_firsts[slot] = 4 * packet

    def _sort_firsts(self, slot: int) -> None:
        """Put the packets that come before the others of this time in order, where they are not: runs of 1, 2, 4 and so
        on are merged. Hosts that begin together have hundreds in one nanosecond."""
        head, length, runs = self._firsts[slot], 1, 2
        tail, event = head, self._pool.cells[(head >> 2) * WIDTH + NEXT]
        while event != _NONE and not self._comes_before(event >> 2, tail >> 2):
            tail, event = event, self._pool.cells[(event >> 2) * WIDTH + NEXT]
        if event == _NONE:
            return
        while runs > 1:
            left, head, tail, runs = head, _NONE, _NONE, 0
            while left != _NONE:
                runs += 1
                right, of_left, of_right = left, 0, length
                while of_left < length and right != _NONE:
                    of_left += 1
                    right = self._pool.cells[(right >> 2) * WIDTH + NEXT]
                while of_left or (of_right and right != _NONE):
                    if of_left and (not of_right or right == _NONE or not self._comes_before(right >> 2, left >> 2)):
                        event, of_left = left, of_left - 1
                        left = self._pool.cells[(left >> 2) * WIDTH + NEXT]
                    else:
                        event, of_right = right, of_right - 1
                        right = self._pool.cells[(right >> 2) * WIDTH + NEXT]
                    if tail == _NONE:
                        head = event
                    else:
                        self._pool.cells[(tail >> 2) * WIDTH + NEXT] = event
                    tail = event
                left = right
            self._pool.cells[(tail >> 2) * WIDTH + NEXT] = _NONE
            length *= 2
        self._firsts[slot] = head

    def _comes_before(self, one: int, other: int) -> bool:
        size, another = self._pool.cells[one * WIDTH + SIZE], self._pool.cells[other * WIDTH + SIZE]
        if size != another:
            return size > another
        return self._pool.cells[one * WIDTH + LINK] < self._pool.cells[other * WIDTH + LINK]

    def _occupy(self, slot: int) -> None:
        self._occupied[slot >> 5] |= 1 << (slot & 31)

    def _set_next(self, event: int, after: int) -> None:
        kind = event & 3
        if kind == ARRIVAL:
            self._pool.cells[(event >> 2) * WIDTH + NEXT] = after
        elif kind == FREE:
            self._next[event >> 2] = after
        else:
            self._next[self._directions + (event >> 2)] = after

    def _after(self, event: int) -> int:
        kind = event & 3
        if kind == ARRIVAL:
            return self._pool.cells[(event >> 2) * WIDTH + NEXT]
        if kind == FREE:
            return self._next[event >> 2]
        return self._next[self._directions + (event >> 2)]

    def next_at(self) -> int:
        """When the next event is, ns; FOREVER without any."""
        if not self.count:
            return FOREVER
        slot = self.position & self._mask
        word, at = slot >> 5, self.position
        bits = self._occupied[word] >> (slot & 31)
        if not bits:
            at += 32 - (slot & 31)
            word = word + 1 & self._words
            while not self._occupied[word]:
                at += 32
                word = word + 1 & self._words
            bits = self._occupied[word]
        while not bits & 1:
            bits >>= 1
            at += 1
        return at

    def take(self, at: int) -> int:
        """Take the first event of `at`, which there is; time is `at` then."""
        slot = at & self._mask
        event = self._firsts[slot]
        if event != _NONE:
            if self._in_order != at:
                self._in_order = at
                self._sort_firsts(slot)
                event = self._firsts[slot]
            after = self._pool.cells[(event >> 2) * WIDTH + NEXT]
            self._firsts[slot] = after
            if after == _NONE:
                after = self._heads[slot]
        else:
            event = self._heads[slot]
            after = self._after(event)
            self._heads[slot] = after
        if after == _NONE:
            self._occupied[slot >> 5] &= ~(1 << (slot & 31))
        self.count -= 1
        self.position = at
        if after != _NONE:
            self._prepare(after)
        return event

    def _prepare(self, event: int) -> None:
        """This event is the next. What is known of its packet is near by now; what is known of its direction will be,
        and what is known of the packet of the event behind it."""
        if event & 3 == ARRIVAL:
            octets.fetch(self._directions_known, self._pool.cells[(event >> 2) * WIDTH + LINK] * ROW)
        elif event & 3 == FREE:
            octets.fetch(self._directions_known, (event >> 2) * ROW)
        after = self._after(event)
        if after != _NONE and after & 3 == ARRIVAL:
            octets.fetch(self._pool.cells, (after >> 2) * WIDTH)

    def know(self, directions: memoryview) -> python[None]:
        """What is known of each direction is in this column."""
        self._directions_known = directions

    def advance(self, at: int) -> None:
        """Time is `at`, which is not after the next event."""
        self.position = at

    def arrivals(self) -> python[list[int]]:
        """The packets that wait for their arrival."""
        found = []
        for slot in range(self.span):
            for event in (self._firsts[slot], self._heads[slot]):
                while event != _NONE:
                    if event & 3 == ARRIVAL:
                        found.append(event >> 2)
                    event = self._after(event)
        return found
