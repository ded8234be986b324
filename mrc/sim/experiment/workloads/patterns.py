# SPDX-License-Identifier: BSD-2-Clause
"""Patterns of flows that are there at once: permutation, incast, all-to-all."""

from __future__ import annotations

import numpy as np

from mrc.errors import CallerError
from mrc.sim.experiment.workloads.flows import Job, JobFlows, few_enough


def permutation(job: Job, size: int, shift: int | None) -> JobFlows:
    """Each rank writes `size` bytes to another one: to the rank `shift` further, or to one of a random permutation in
    which no rank writes to itself."""
    source = np.arange(job.ranks, dtype=np.int64)
    if shift is None:
        destination = job.random.permutation(source)
        own = np.flatnonzero(destination == source)
        if len(own) == 1:
            own = np.append(own, (own[0] + 1) % job.ranks)
        destination[own] = destination[np.roll(own, 1)]
    else:
        if shift % job.ranks == 0:
            raise CallerError(f"shift of {shift} leads each of {job.ranks} ranks to itself")
        destination = (source + shift) % job.ranks
    return JobFlows(source, destination, np.full(job.ranks, size, np.int64))


def incast(job: Job, size: int) -> JobFlows:
    """All ranks but rank 0 write `size` bytes to it."""
    source = np.arange(1, job.ranks, dtype=np.int64)
    return JobFlows(source, np.zeros_like(source), np.full(len(source), size, np.int64))


def all_to_all(job: Job, size: int, in_flight: int) -> JobFlows:
    """Each rank writes `size` bytes to each other: to its right neighbour first. With `in_flight` the next write of a
    rank starts when the one so many before it has arrived; 0: all at once."""
    ranks = job.ranks
    count = few_enough(ranks * (ranks - 1))
    source = np.repeat(np.arange(ranks, dtype=np.int64), ranks - 1)
    step = np.tile(np.arange(1, ranks, dtype=np.int64), ranks)
    rows = np.arange(count, dtype=np.int64)
    waits = rows[step > in_flight] if in_flight else rows[:0]
    return JobFlows(
        source, (source + step) % ranks, np.full(count, size, np.int64), waits=waits, waits_for=waits - in_flight
    )
