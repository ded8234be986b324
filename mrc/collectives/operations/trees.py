"""Broadcast and reduce, by trees for short arrays and chains for long ones; the barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.collectives.engine import Engine
from mrc.collectives.messages import Signature
from mrc.collectives.operations.base import Operation, Reducer, Stepwise
from mrc.collectives.reduction import Reduction
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import SCRATCH, ReceiveSegment, SendSegment
from mrc.collectives.work import Work


def children_of(place: int, size: int) -> list[int]:
    """Return the children of a place in a binomial tree of `size`, the nearest first. Place 0 is the root."""
    found, distance = [], 1
    while place + distance < size and not place & distance:
        found.append(place + distance)
        distance *= 2
    return found


def parent_of(place: int) -> int:
    """Return the parent of a place other than 0."""
    return place & place - 1


class Barrier(Stepwise):
    """Dissemination: in step k each rank signals the rank 2^k places to its right."""

    eager = True

    def plan(self) -> None:
        memory = self.memory(np.zeros(1, np.uint8))
        distance = 1
        while distance < self.size:
            right, left = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            self.step([(right, SendSegment(memory, 0, 1, 0))], (left, ReceiveSegment(1, 0)))
            distance *= 2


class TreeBroadcast(Stepwise):
    """A binomial tree: each rank passes the array on, to its farthest child first."""

    eager = True

    def __init__(
        self, engine: Engine, sequence: int, signature: Signature, work: Work, array: NDArray[Any], root: int
    ) -> None:
        super().__init__(engine, sequence, signature, work)
        self._array = array
        self._root = root

    def plan(self) -> None:
        size, root = self.size, self._root
        place = (self.rank - root) % size
        memory = self.memory(self._array)
        whole = self._array.nbytes
        if place:
            self.step(comes=((parent_of(place) + root) % size, ReceiveSegment(whole, 0, target=memory.view)))
        self.step(
            [((child + root) % size, SendSegment(memory, 0, whole, 0)) for child in reversed(children_of(place, size))]
        )


class ChainBroadcast(Operation):
    """A chain: each rank passes chunks on to the next, straight to their places."""

    def __init__(
        self, engine: Engine, sequence: int, signature: Signature, work: Work, array: NDArray[Any], root: int
    ) -> None:
        super().__init__(engine, sequence, signature, work)
        self._array = array
        self._root = root

    def plan(self) -> None:
        size = self.size
        place = (self.rank - self._root) % size
        memory = self.memory(self._array)
        whole = self._array.nbytes
        leaves: SendSegment | None = None
        right = (self.rank + 1) % size
        if place < size - 1:
            leaves = self.outgoing(right).add(SendSegment(memory, 0, whole, 0, ready=place == 0))
        if place:
            arrival = self.receive((self.rank - 1) % size, memory).add(ReceiveSegment(whole, 0))
            if leaves is not None:
                going = leaves
                arrival.then = lambda stop: self.outgoing(right).advance(going, stop)


class TreeReduce(Stepwise):
    """A binomial tree towards the root: each rank reduces its children's values and passes the result on."""

    eager = True

    def __init__(
        self,
        engine: Engine,
        sequence: int,
        signature: Signature,
        work: Work,
        array: NDArray[Any],
        root: int,
        reduction: Reduction,
    ) -> None:
        super().__init__(engine, sequence, signature, work)
        self._array = array
        self._root = root
        self._reducer = Reducer(reduction, self.size)

    def plan(self) -> None:
        size, root = self.size, self._root
        place = (self.rank - root) % size
        children = children_of(place, size)
        # The arrays of other ranks than the root must not change.
        memory = self.memory(self._array.copy() if place and children else self._array)
        whole = self._array.nbytes
        for child in children:
            take = self._reducer.into(memory.view, last=not place and child == children[-1])
            self.step(comes=((child + root) % size, ReceiveSegment(whole, 0, take=take)))
        if place:
            self.step([((parent_of(place) + root) % size, SendSegment(memory, 0, whole, 0))])


class ChainReduce(Operation):
    """A chain towards the root: each rank reduces its values into the chunks in scratch memory, and passes them on."""

    def __init__(
        self,
        engine: Engine,
        sequence: int,
        signature: Signature,
        work: Work,
        array: NDArray[Any],
        root: int,
        reduction: Reduction,
    ) -> None:
        super().__init__(engine, sequence, signature, work)
        self._array = array
        self._root = root
        self._reducer = Reducer(reduction, self.size)

    def plan(self) -> None:
        size = self.size
        place = (self.rank - self._root) % size
        memory = self.memory(self._array)
        whole = self._array.nbytes
        left, right = (self.rank - 1) % size, (self.rank + 1) % size
        if place == size - 1:
            self.outgoing(left).add(SendSegment(memory, 0, whole, SCRATCH))
            return
        stream = self.receive(right)
        if place == 0:
            stream.add(ReceiveSegment(whole, SCRATCH, take=self._reducer.into(memory.view, last=True)))
            return
        arrival = stream.add(ReceiveSegment(whole, SCRATCH, take=self._reducer.onto(memory.view)))
        self._forward(stream, arrival, left, whole)

    def _forward(self, stream: Any, arrival: ReceiveSegment, left: int, whole: int) -> None:
        out = self.outgoing(left)
        leaves = out.add(SendSegment(self._scratch(), 0, whole, SCRATCH, ready=False, ring=stream))
        out.forwards = stream
        stream.holds = True
        arrival.then = lambda stop: out.advance(leaves, stop)

    def _scratch(self) -> Memory:
        return self.engine.scratch
