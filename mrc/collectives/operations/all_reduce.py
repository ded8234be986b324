"""All-reduce: recursive doubling for short arrays, a ring for long ones.

Every rank ends with the same bits: each value is reduced once, in one order, and handed out; or, in recursive
doubling, both ranks of each pair reduce the same two values, those of the lower ranks first.
"""

from __future__ import annotations

from collections.abc import Callable

from mrc.collectives.arrays import Bytes
from mrc.collectives.operations.base import Reducing, spans
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import SCRATCH, Arrival, Departure


class RingAllReduce(Reducing):
    """N - 1 steps in which each rank gets a part from its left, reduces it and sends it to its right; then N - 1 more,
    in which the reduced parts go round, straight to their place. A piece goes on as soon as it is reduced.

    A rank's part may be overwritten while it lies in packets that were not acknowledged: what comes was reduced from
    it, so the right one has it.
    """

    def plan(self) -> None:
        size, rank, array = self.size, self.rank, self.array
        left, right = (rank - 1) % size, (rank + 1) % size
        parts = spans(array.size, size, array.itemsize)
        memory = self.memory(array)
        out, come = self.outgoing(right), self.receive(left, memory)
        before: Arrival | None = None
        for step in range(2 * (size - 1)):
            reduces = step < size - 1
            start, length = parts[(rank - step) % size]
            place = SCRATCH if reduces else start
            leaves = out.add(Departure(memory, start, length, place, ready=step == 0))
            if before is not None:
                self._follow(before, leaves)
            start, length = parts[(rank - step - 1) % size]
            arrival = Arrival(length, place if reduces else start)
            if reduces:
                arrival.take = self.into(memory.view[start : start + length], last=step == size - 2)
            before = come.add(arrival)

    def _follow(self, arrival: Arrival, leaves: Departure) -> None:
        """What has arrived, and was reduced, is what leaves next."""
        advance = self.outgoing((self.rank + 1) % self.size).advance
        arrival.then = lambda stop: advance(leaves, stop)


class DoublingAllReduce(Reducing):
    """In log2 N steps each rank of a pair sends the other all it has, and both reduce it; pairs are twice as far apart
    each time.

    Beyond a power of two, ranks first hand their values to a neighbour, and get the result from it in the end.
    """

    eager = True

    def plan(self) -> None:
        rank, size = self.rank, self.size
        core = 1 << size.bit_length() - 1
        extra = size - core
        memory = self.memory(self.array)
        view, whole = memory.view, self.array.nbytes
        if rank < 2 * extra and rank % 2 == 0:
            self.outgoing(rank + 1).add(Departure(memory, 0, whole, 0))
            self.receive(rank + 1).add(Arrival(whole, 0, target=view))
            return
        steps: list[tuple[int, bool]] = []  # the other rank, and whether its values come first
        if rank < 2 * extra:
            number = rank // 2
            steps.append((rank - 1, True))
        else:
            number = rank - extra
        distance = 1
        while distance < core:
            other = number ^ distance
            steps.append((2 * other + 1 if other < extra else other + extra, other < number))
            distance *= 2
        folds = rank < 2 * extra
        self._plan_steps(steps, folds, memory, whole)
        if not steps:
            self.reduction.finish(view, size)

    def _plan_steps(self, steps: list[tuple[int, bool]], folds: bool, memory: Memory, whole: int) -> None:
        last = len(steps) - 1
        begin: list[Callable[[], None]] = []

        def stage(number: int) -> None:
            other, first = steps[number]
            only_takes = folds and number == 0
            leaves = None if only_takes else self.outgoing(other).add(Departure(memory, 0, whole, 0, ready=False))
            arrival = self.receive(other).add(Arrival(whole, 0, open=False))
            view = memory.view

            def take(piece: Bytes, start: int) -> None:
                if leaves is not None:
                    leaves.keep()
                if first:
                    self.reduction.combine(piece, view, view)
                else:
                    self.reduction.combine(view, piece, view)
                if number == last:
                    self.reduction.finish(view, self.size)

            def then(_: int) -> None:
                begin[number + 1]()

            def go() -> None:
                if leaves is not None:
                    self.outgoing(other).advance(leaves, whole)
                arrival.open = True
                self.receive(other).process()

            arrival.take, arrival.then = take, then
            begin.append(go)

        for number in range(len(steps)):
            stage(number)
        if folds:
            result = self.outgoing(self.rank - 1).add(Departure(memory, 0, whole, 0, ready=False))
            begin.append(lambda: self.outgoing(self.rank - 1).advance(result, whole))
        else:
            begin.append(lambda: None)
        self._first = begin[0]

    _first: Callable[[], None] | None = None

    def under_way(self) -> None:
        if self._first is not None:
            self._first()
