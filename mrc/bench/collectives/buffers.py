# SPDX-License-Identifier: BSD-2-Clause
"""The arrays of one measurement at one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.bench.collectives.content import stream
from mrc.bench.collectives.kinds import IN_PLACE
from mrc.bench.collectives.plan import Job

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Buffers:
    """`source` is what a rank puts in, `result` what it gets: one array, or one a part of the other, in place."""

    source: Array
    result: Array

    @classmethod
    def make(cls, job: Job, count: int, place: str) -> Buffers:
        rank, ranks = job.rank, job.ranks
        own = slice(rank * count, (rank + 1) * count)
        sent = count * ranks if job.kind in ("reducescatter", "alltoall") else count
        got = count * ranks if job.kind in ("allgather", "alltoall") else count
        if place != IN_PLACE:
            return cls(np.zeros(sent, job.dtype), np.zeros(got, job.dtype))
        whole = np.zeros(max(sent, got), job.dtype)
        return cls(whole[own] if sent < got else whole, whole[own] if got < sent else whole)

    def fill(self, job: Job, repetition: int) -> None:
        """What is to be checked: the result holds nothing of it yet."""
        self.result[:] = 0
        self.source[:] = stream(job.rank, repetition, job.dtype, job.redop, 0, len(self.source))

    def rest(self, job: Job) -> None:
        """Values that stay as they are, however often they are reduced in place; each array has pages of its own."""
        value = 1 if job.redop == "prod" else 0
        self.result[:] = value
        self.source[:] = value
