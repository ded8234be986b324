# SPDX-License-Identifier: BSD-2-Clause
"""Broadcast and reduce, by trees for short arrays and chains for long ones; the barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.collectives.operations.base import Operation, Posted, Reducer, Stepwise
from mrc.collectives.reduction import Reduction
from mrc.collectives.streams import SCRATCH, ReceiveSegment, SendSegment


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


class _Rooted(Operation):
    """An operation on one array with a root. A rank's place: how many ranks it is to the right of the root."""

    def __init__(self, posted: Posted, array: NDArray[Any], root: int) -> None:
        super().__init__(posted)
        self._array = array
        self._root = root
        self._place = (self.rank - root) % self.size

    def _rank_of(self, place: int) -> int:
        return (place + self._root) % self.size


class _Reducing(_Rooted):
    """One that reduces the array."""

    def __init__(self, posted: Posted, array: NDArray[Any], root: int, reduction: Reduction) -> None:
        super().__init__(posted, array, root)
        self._reducer = Reducer(reduction, self.size)


class TreeBroadcast(_Rooted, Stepwise):
    """A binomial tree: each rank passes the array on, to its farthest child first."""

    eager = True

    def plan(self) -> None:
        memory, whole, place = self.memory(self._array), self._array.nbytes, self._place
        if place:
            self.step(comes=(self._rank_of(parent_of(place)), ReceiveSegment(whole, 0, target=memory.view)))
        children = reversed(children_of(place, self.size))
        self.step([(self._rank_of(child), SendSegment(memory, 0, whole, 0)) for child in children])


class ChainBroadcast(_Rooted):
    """A chain: each rank passes chunks on to the next, straight to their places."""

    def plan(self) -> None:
        memory, whole, place = self.memory(self._array), self._array.nbytes, self._place
        leaves: SendSegment | None = None
        right = self._rank_of(place + 1)
        if place < self.size - 1:
            leaves = self.outgoing(right).add(SendSegment(memory, 0, whole, 0, ready=place == 0))
        if place:
            arrival = self.receive(self._rank_of(place - 1), memory).add(ReceiveSegment(whole, 0))
            if leaves is not None:
                going = leaves
                arrival.then = lambda stop: self.outgoing(right).advance(going, stop)


class TreeReduce(_Reducing, Stepwise):
    """A binomial tree towards the root: each rank reduces its children's values and passes the result on."""

    eager = True

    def plan(self) -> None:
        place = self._place
        children = children_of(place, self.size)
        # The arrays of other ranks than the root must not change.
        memory = self.memory(self._array.copy() if place and children else self._array)
        whole = self._array.nbytes
        for child in children:
            take = self._reducer.into(memory.view, last=not place and child == children[-1])
            self.step(comes=(self._rank_of(child), ReceiveSegment(whole, 0, take=take)))
        if place:
            self.step([(self._rank_of(parent_of(place)), SendSegment(memory, 0, whole, 0))])


class ChainReduce(_Reducing):
    """A chain towards the root: each rank reduces its values into the chunks in scratch memory, and passes them on."""

    def plan(self) -> None:
        memory, whole, place = self.memory(self._array), self._array.nbytes, self._place
        left = self._rank_of(place - 1)
        if place == self.size - 1:
            self.outgoing(left).add(SendSegment(memory, 0, whole, SCRATCH))
            return
        stream = self.receive(self._rank_of(place + 1))
        if place == 0:
            stream.add(ReceiveSegment(whole, SCRATCH, take=self._reducer.into(memory.view, last=True)))
            return
        arrival = stream.add(ReceiveSegment(whole, SCRATCH, take=self._reducer.onto(memory.view)))
        out = self.outgoing(left)
        leaves = out.add(SendSegment(self.engine.scratch, 0, whole, SCRATCH, ready=False, ring=stream))
        out.forwards = stream
        stream.holds = True
        arrival.then = lambda stop: out.advance(leaves, stop)
