"""From one rank to all, and from all to one: trees for short arrays, chains for long ones, and the barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.collectives.engine import Engine
from mrc.collectives.messages import Signature
from mrc.collectives.operations.base import Operation, Reducer, Stepwise
from mrc.collectives.reduction import Reduction
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import SCRATCH, Arrival, Departure
from mrc.collectives.work import Work


def children_of(place: int, size: int) -> list[int]:
    """Of a place in a binomial tree of `size`, the nearest ones first. Place 0 is the root."""
    found, distance = [], 1
    while place + distance < size and not place & distance:
        found.append(place + distance)
        distance *= 2
    return found


def parent_of(place: int) -> int:
    """Of a place other than the root's."""
    return place & place - 1


class Barrier(Stepwise):
    """In step k each rank tells the one 2^k places to its right that those it knows of have come."""

    eager = True

    def plan(self) -> None:
        memory = self.memory(np.zeros(1, np.uint8))
        distance = 1
        while distance < self.size:
            right, left = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            self.step([(right, Departure(memory, 0, 1, 0))], (left, Arrival(1, 0)))
            distance *= 2


class TreeBroadcast(Stepwise):
    """Along a binomial tree: who has it sends it on, to the farthest first."""

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
            self.step(comes=((parent_of(place) + root) % size, Arrival(whole, 0, target=memory.view)))
        self.step(
            [((child + root) % size, Departure(memory, 0, whole, 0)) for child in reversed(children_of(place, size))]
        )


class ChainBroadcast(Operation):
    """From each rank to the next one, piece by piece, straight to its place."""

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
        leaves: Departure | None = None
        right = (self.rank + 1) % size
        if place < size - 1:
            leaves = self.outgoing(right).add(Departure(memory, 0, whole, 0, ready=place == 0))
        if place:
            arrival = self.receive((self.rank - 1) % size, memory).add(Arrival(whole, 0))
            if leaves is not None:
                going = leaves
                arrival.then = lambda stop: self.outgoing(right).advance(going, stop)


class TreeReduce(Stepwise):
    """Along a binomial tree towards the root: who has its children's values sends on what they come to."""

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
        # Only the root's array is the result's place.
        memory = self.memory(self._array.copy() if place and children else self._array)
        whole = self._array.nbytes
        for child in children:
            take = self._reducer.into(memory.view, last=not place and child == children[-1])
            self.step(comes=((child + root) % size, Arrival(whole, 0, take=take)))
        if place:
            self.step([((parent_of(place) + root) % size, Departure(memory, 0, whole, 0))])


class ChainReduce(Operation):
    """From each rank to the one before it, towards the root: each reduces its values into what comes by, piece by
    piece, in scratch memory, and sends it on from there."""

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
            self.outgoing(left).add(Departure(memory, 0, whole, SCRATCH))
            return
        stream = self.receive(right)
        if place == 0:
            stream.add(Arrival(whole, SCRATCH, take=self._reducer.into(memory.view, last=True)))
            return
        arrival = stream.add(Arrival(whole, SCRATCH, take=self._reducer.onto(memory.view)))
        self._forward(stream, arrival, left, whole)

    def _forward(self, stream: Any, arrival: Arrival, left: int, whole: int) -> None:
        out = self.outgoing(left)
        leaves = out.add(Departure(self._scratch(), 0, whole, SCRATCH, ready=False, ring=stream))
        out.forwards = stream
        stream.holds = True
        arrival.then = lambda stop: out.advance(leaves, stop)

    def _scratch(self) -> Memory:
        return self.engine.scratch
