# SPDX-License-Identifier: BSD-2-Clause
"""The all-reduce algorithms of mrc.collectives as writes that depend on each other.

mrc/collectives/operations/all_reduce.py has them with data. Here a step is a write, and it starts when what the rank
was to receive before has arrived in whole: of a ring the part that it passes on, of the others all earlier steps.
Reducing takes no time.
"""

from __future__ import annotations

import numpy as np

from mrc.errors import CallerError
from mrc.sim.experiment.workloads.flows import Job, JobFlows, few_enough

# (rank, first byte, byte behind the last) that a rank has or gives away.
_Range = tuple[int, int]


def ring(job: Job, size: int, chunk: int) -> JobFlows:
    """N - 1 steps to reduce, N - 1 to gather: in each a rank passes one of N parts to its right neighbour.

    With `chunk` a part goes on in chunks of at most so many bytes, each when it has arrived; 0: in one.
    """
    ranks = job.ranks
    if size < ranks:
        raise CallerError(f"bytes must be at least 1 for each of the {ranks} ranks of a ring")
    whole, more = divmod(size, ranks)
    chunks = -(-(whole + (more > 0)) // chunk) if chunk else 1
    if chunks > whole:
        chunks = whole
    steps = 2 * (ranks - 1)
    count = few_enough(steps * ranks * chunks)
    step, rank, piece = (each.ravel() for each in np.indices((steps, ranks, chunks), np.int64))
    part = (rank - step) % ranks
    part_bytes = whole + (part < more)
    source = rank
    destination = (rank + 1) % ranks
    rows = np.arange(count, dtype=np.int64)
    waits = rows[step > 0]
    left = (rank - 1) % ranks
    waits_for = (((step - 1) * ranks + left) * chunks + piece)[step > 0]
    pieces = part_bytes // chunks + (piece < part_bytes % chunks)
    return JobFlows(source, destination, pieces, waits=waits, waits_for=waits_for)


class _Steps:
    """Flows step by step: those of a rank wait for all it was to receive in the steps before."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self._pairs: list[tuple[int, int]] = []
        self._received: dict[int, list[int]] = {}

    def step(self, sends: list[tuple[int, int, int]]) -> None:
        """Source, destination and bytes of all writes of one step."""
        arrived = []
        for source, destination, size in sends:
            row = few_enough(len(self._rows))
            self._rows.append((source, destination, size))
            self._pairs += [(row, before) for before in self._received.get(source, ())]
            arrived.append((destination, row))
        for rank, row in arrived:
            self._received.setdefault(rank, []).append(row)

    def flows(self) -> JobFlows:
        rows = np.array(self._rows, np.int64).reshape(-1, 3)
        pairs = np.array(self._pairs, np.int64).reshape(-1, 2)
        columns = (np.ascontiguousarray(each) for each in (*rows.T, *pairs.T))
        source, destination, size, waits, waits_for = columns
        return JobFlows(source, destination, size, waits=waits, waits_for=waits_for)


class _Core:
    """The largest power of two of the ranks. Of the first 2 x `extra` ranks each even one hands over to the next."""

    def __init__(self, ranks: int) -> None:
        self.size = 1 << ranks.bit_length() - 1
        self.extra = ranks - self.size
        self.handing_over = [(2 * number, 2 * number + 1) for number in range(self.extra)]

    def rank_of(self, number: int) -> int:
        return 2 * number + 1 if number < self.extra else number + self.extra


def halving_doubling(job: Job, size: int) -> JobFlows:
    """In log2 N steps each rank gives half of what it has to a peer; then, backwards, peers exchange reduced halves."""
    core = _Core(job.ranks)
    if size < core.size:
        raise CallerError(f"bytes must be at least 1 for each of the {core.size} ranks that halve")
    steps = _Steps()
    if core.extra:
        steps.step([(giver, taker, size) for giver, taker in core.handing_over])
    has: list[_Range] = [(0, size)] * core.size
    history: list[tuple[int, list[_Range]]] = []
    distance = core.size // 2
    while distance:
        sends, kept = [], []
        for number, (low, high) in enumerate(has):
            other = number ^ distance
            middle = (low + high + 1) // 2
            keeps, gives = ((low, middle), (middle, high)) if number < other else ((middle, high), (low, middle))
            sends.append((core.rank_of(number), core.rank_of(other), gives[1] - gives[0]))
            kept.append(keeps)
        steps.step(sends)
        has = kept
        history.append((distance, kept))
        distance //= 2
    for distance, kept in reversed(history):
        steps.step(
            [
                (core.rank_of(number), core.rank_of(number ^ distance), high - low)
                for number, (low, high) in enumerate(kept)
            ]
        )
    if core.extra:
        steps.step([(taker, giver, size) for giver, taker in core.handing_over])
    return steps.flows()


def doubling(job: Job, size: int) -> JobFlows:
    """In each of log2 N steps both ranks of a pair exchange their whole arrays."""
    core = _Core(job.ranks)
    steps = _Steps()
    if core.extra:
        steps.step([(giver, taker, size) for giver, taker in core.handing_over])
    distance = 1
    while distance < core.size:
        steps.step([(core.rank_of(number), core.rank_of(number ^ distance), size) for number in range(core.size)])
        distance *= 2
    if core.extra:
        steps.step([(taker, giver, size) for giver, taker in core.handing_over])
    return steps.flows()
