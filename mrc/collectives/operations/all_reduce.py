# SPDX-License-Identifier: BSD-2-Clause
"""All-reduce: recursive doubling for short arrays, halving and doubling for longer ones, a ring for long ones.

Every rank ends with the same bits. In a ring and in halving each value is reduced at one rank, in an order that rank
numbers alone decide. In recursive doubling both ranks of a pair reduce the same operands, the lower rank's first.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mrc.collectives.arrays import Bytes
from mrc.collectives.operations.base import Leaves, Operation, Posted, Reducer, Stepwise, spans
from mrc.collectives.reduction import Reduction
from mrc.collectives.streams import SCRATCH, ReceiveSegment, SendSegment


class RingAllReduce(Operation):
    """A ring: N - 1 steps to reduce, then N - 1 steps to gather.

    To reduce, each rank receives a part from its left, reduces it and sends it to its right. To gather, the reduced
    parts go round, straight to their places. A chunk goes on as soon as it is reduced.

    Gathered chunks may overwrite a part that was sent but not acknowledged: they were reduced from it, so the right
    neighbour has received it.
    """

    def __init__(self, posted: Posted, array: NDArray[Any], reduction: Reduction) -> None:
        super().__init__(posted)
        self._array = array
        self._reducer = Reducer(reduction, self.size)

    def plan(self) -> None:
        size, rank, array = self.size, self.rank, self._array
        left, right = (rank - 1) % size, (rank + 1) % size
        parts = spans(array.size, size, array.itemsize)
        memory = self.memory(array)
        out, come = self.outgoing(right), self.receive(left, memory)
        before: ReceiveSegment | None = None
        for step in range(2 * (size - 1)):
            reduces = step < size - 1
            start, length = parts[(rank - step) % size]
            leaves = out.add(SendSegment(memory, start, length, SCRATCH if reduces else start, ready=step == 0))
            if before is not None:
                self._follow(before, leaves)
            start, length = parts[(rank - step - 1) % size]
            arrival = ReceiveSegment(length, SCRATCH if reduces else start)
            if reduces:
                arrival.take = self._reducer.into(memory.view[start : start + length], last=step == size - 2)
            before = come.add(arrival)

    def _follow(self, arrival: ReceiveSegment, leaves: SendSegment) -> None:
        """Send on what has arrived and is reduced."""
        advance = self.outgoing((self.rank + 1) % self.size).advance
        arrival.then = lambda stop: advance(leaves, stop)


class _Paired(Stepwise):
    """An operation of pairs of ranks, among the largest power of two of ranks, `core`.

    Each of the `extra` ranks beyond hands its values to a neighbour first, and receives the result in the end: of the
    first 2 x `extra` ranks each even one hands over to the next.
    """

    def __init__(self, posted: Posted, array: NDArray[Any], reduction: Reduction) -> None:
        super().__init__(posted)
        self._array = array
        self._reducer = Reducer(reduction, self.size)
        self._core = 1 << self.size.bit_length() - 1
        self._extra = self.size - self._core
        self._hands_over = self.rank < 2 * self._extra and self.rank % 2 == 0
        self._takes_over = self.rank < 2 * self._extra and self.rank % 2 == 1
        self._number = self.rank // 2 if self._takes_over else self.rank - self._extra

    def _rank_of(self, number: int) -> int:
        """Return the rank with a number in the core."""
        return 2 * number + 1 if number < self._extra else number + self._extra


class DoublingAllReduce(_Paired):
    """Recursive doubling: in each of log2 N steps both ranks of a pair exchange and reduce their whole arrays."""

    eager = True

    def plan(self) -> None:
        rank, whole = self.rank, self._array.nbytes
        memory = self.memory(self._array)
        view = memory.view
        if self._hands_over:
            self.step([(rank + 1, SendSegment(memory, 0, whole, 0))], (rank + 1, ReceiveSegment(whole, 0, target=view)))
            return
        if self._takes_over:
            self.step(comes=(rank - 1, ReceiveSegment(whole, 0, take=self._reducer.into(view, first=True))))
        distance = 1
        while distance < self._core:
            other = self._number ^ distance
            leaves = SendSegment(memory, 0, whole, 0)
            last = 2 * distance == self._core
            reduce = self._reducer.into(view, first=other < self._number, last=last)

            def take(chunk: Bytes, start: int, leaves: SendSegment = leaves, reduce: Any = reduce) -> None:
                leaves.keep()
                reduce(chunk, start)

            peer = self._rank_of(other)
            self.step([(peer, leaves)], (peer, ReceiveSegment(whole, 0, take=take)))
            distance *= 2
        if self._takes_over:
            self.step([(rank - 1, SendSegment(memory, 0, whole, 0))])


class HalvingAllReduce(_Paired):
    """Halving and doubling: as many bytes as a ring, in fewer steps.

    In each of log2 N steps a rank gives half of its values to its peer and reduces the other half. Then, backwards,
    peers exchange their reduced values.
    """

    def plan(self) -> None:
        rank, array = self.rank, self._array
        whole = array.nbytes
        memory = self.memory(array)
        view = memory.view
        if self._hands_over:
            self.receive(rank + 1, memory)
            out = SendSegment(memory, 0, whole, SCRATCH)
            self.step([(rank + 1, out)], (rank + 1, ReceiveSegment(whole, 0)))
            return
        peers = [rank - 1] if self._takes_over else []
        distances = [1 << power for power in reversed(range(self._core.bit_length() - 1))]
        peers += [self._rank_of(self._number ^ distance) for distance in distances]
        self._share_scratch(peers, memory)
        if self._takes_over:
            take = self._reducer.into(view, first=True)
            self.step(comes=(rank - 1, ReceiveSegment(whole, SCRATCH, take=take)))
        low, high = 0, array.size
        done: list[tuple[int, int, int, int, int]] = []
        for distance in distances:
            other = self._number ^ distance
            middle = (low + high + 1) // 2
            kept, given = ((low, middle), (middle, high)) if self._number < other else ((middle, high), (low, middle))
            done.append((self._rank_of(other), *kept, *given))
            first = other < self._number
            self._halve(memory, self._rank_of(other), kept, given, first=first, last=distance == 1)
            low, high = kept
        for peer, *bounds in reversed(done):
            start, stop, other_start, other_stop = (bound * array.itemsize for bound in bounds)
            leaves: Leaves = (peer, SendSegment(memory, start, stop - start, start))
            self.step([leaves], (peer, ReceiveSegment(other_stop - other_start, other_start)))
        if self._takes_over:
            self.step([(rank - 1, SendSegment(memory, 0, whole, 0))])

    def _halve(
        self, memory: Any, peer: int, kept: tuple[int, int], given: tuple[int, int], *, first: bool, last: bool
    ) -> None:
        unit = self._array.itemsize
        start, length = kept[0] * unit, (kept[1] - kept[0]) * unit
        take = self._reducer.into(memory.view[start : start + length], first=first, last=last)
        leaves = SendSegment(memory, given[0] * unit, (given[1] - given[0]) * unit, SCRATCH)
        self.step([(peer, leaves)], (peer, ReceiveSegment(length, SCRATCH, take=take)))

    def _share_scratch(self, peers: list[int], memory: Any) -> None:
        """Give each peer a share of the scratch memory."""
        share = self.engine.config.window // len(peers)
        for place, peer in enumerate(peers):
            stream = self.receive(peer, memory)
            stream.first, stream.chunks = place * share, share


def fits_halving(size: int, window: int) -> bool:
    """Return whether scratch memory of `window` chunks suffices for all peers of a rank."""
    return size.bit_length() <= window


__all__ = ["DoublingAllReduce", "HalvingAllReduce", "RingAllReduce", "fits_halving"]
