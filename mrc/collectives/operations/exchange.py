# SPDX-License-Identifier: BSD-2-Clause
"""Direct exchange between all pairs: all-gather, all-to-all, reduce-scatter, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.collectives.arrays import Part
from mrc.collectives.operations.base import Operation, Posted, Reducer
from mrc.collectives.reduction import Reduction
from mrc.collectives.streams import SCRATCH, ReceiveSegment, SendSegment


class Exchange(Operation):
    """Send `sends[r]` to rank r and receive `receives[r]` from it; None: nothing. This rank's own part is copied.

    In step s a rank sends to the rank s places to its right, so that not all send to the same one.
    """

    def __init__(
        self, posted: Posted, sends: Sequence[Part | None], receives: Sequence[Part | None], *, eager: bool
    ) -> None:
        super().__init__(posted)
        self._sends = sends
        self._receives = receives
        self.eager = eager

    def plan(self) -> None:
        size, rank = self.size, self.rank
        own, mine = self._sends[rank], self._receives[rank]
        if own is not None and mine is not None:
            np.copyto(mine.values, own.values)
        for step in range(1, size):
            to, source = (rank + step) % size, (rank - step) % size
            given, got = self._sends[to], self._receives[source]
            if given is not None and given.nbytes:
                self.outgoing(to).add(SendSegment(self.memory(given.array), given.offset, given.nbytes, 0))
            if got is not None and got.nbytes:
                memory = self.memory(got.array)
                target = memory.view[got.offset : got.offset + got.nbytes]
                stream = self.receive(source, memory)
                stream.base = got.offset
                stream.add(ReceiveSegment(got.nbytes, 0, target=target))


class ReduceScatter(Operation):
    """Send each rank its part, and reduce the received parts in the order of steps, not of arrival.

    So the result is the same in every run. While one part is reduced the next one arrives.
    """

    def __init__(
        self, posted: Posted, output: NDArray[Any], parts: Sequence[Part], reduction: Reduction, *, eager: bool
    ) -> None:
        super().__init__(posted)
        self._output = output
        self._parts = parts
        self._reducer = Reducer(reduction, self.size)
        self.eager = eager

    def plan(self) -> None:
        size, rank, output = self.size, self.rank, self._output
        np.copyto(output.reshape(-1), self._parts[rank].values)
        memory = self.memory(output)
        half = self.engine.config.window // 2
        arrivals: list[tuple[int, ReceiveSegment]] = []
        for step in range(1, size):
            to, source = (rank + step) % size, (rank - step) % size
            part = self._parts[to]
            self.outgoing(to).add(SendSegment(self.memory(part.array), part.offset, part.nbytes, SCRATCH))
            take = self._reducer.into(memory.view, last=step == size - 1)
            arrival = ReceiveSegment(output.nbytes, SCRATCH, take=take, open=step == 1)
            stream = self.receive(source)
            stream.add(arrival)
            # Two streams share the scratch memory. The others get their grants later.
            stream.first, stream.chunks = (step % 2) * half, half
            stream.waits = step > 2
            arrivals.append((source, arrival))
        for number, (_, arrival) in enumerate(arrivals):
            arrival.then = self._going_on(arrivals, number)

    def _going_on(self, arrivals: list[tuple[int, ReceiveSegment]], number: int) -> Any:
        length = arrivals[number][1].length

        def then(stop: int) -> None:
            if stop < length:
                return
            if number + 2 < len(arrivals):
                self.let_come(arrivals[number + 2][0])
            if number + 1 < len(arrivals):
                source, following = arrivals[number + 1]
                following.open = True
                self.receive(source).process()

        return then
