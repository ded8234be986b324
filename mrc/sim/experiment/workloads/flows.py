# SPDX-License-Identifier: BSD-2-Clause
"""The flows of one job in numbers of its ranks, and of all jobs in numbers of hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from mrc.errors import CallerError
from mrc.records import record
from mrc.sim.cluster.setup import Flows, Ints

MOST_FLOWS = 1 << 24


def _none() -> Ints:
    return np.zeros(0, np.int64)


@record(frozen=True, slots=True, eq=False)
class JobFlows:
    """Writes between ranks, by column: `source` and `destination` are ranks, `bytes` 1 or more.

    Row `waits[i]` starts when row `waits_for[i]` has arrived in whole at its destination; a row may wait for several.
    `start_ns` counts from the start of the job; empty: 0 for all.
    """

    source: Ints
    destination: Ints
    bytes: Ints
    start_ns: Ints = field(default_factory=_none)
    waits: Ints = field(default_factory=_none)
    waits_for: Ints = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.source)


@record(frozen=True, slots=True, eq=False)
class Job:
    """What a function that makes flows is given: the number of ranks, the host of each, and a generator of numbers
    seeded by the experiment."""

    ranks: int
    hosts: Ints
    hosts_per_leaf: int
    random: np.random.Generator


Maker = Callable[[Job], JobFlows]


def few_enough(count: int) -> int:
    """Raises CallerError where an experiment would have more flows than are simulated."""
    if count > MOST_FLOWS:
        raise CallerError(f"these are {count:,} writes, at most {MOST_FLOWS:,} are simulated")
    return count


def joined(jobs: Sequence[tuple[JobFlows, Ints, int]]) -> Flows:
    """The flows of all jobs; of each its flows, the hosts of its ranks and when it starts, ns."""
    few_enough(sum(len(flows) for flows, _, _ in jobs))
    columns: dict[str, list[Ints]] = {"source": [], "destination": [], "bytes": [], "start_ns": [], "job": []}
    waits, waits_for, first = [], [], 0
    for number, (flows, hosts, start_ns) in enumerate(jobs):
        count = len(flows)
        columns["source"].append(hosts[flows.source])
        columns["destination"].append(hosts[flows.destination])
        columns["bytes"].append(np.asarray(flows.bytes, np.int64))
        own = flows.start_ns if len(flows.start_ns) else np.zeros(count, np.int64)
        columns["start_ns"].append(own + start_ns)
        columns["job"].append(np.full(count, number, np.int64))
        waits.append(flows.waits + first)
        waits_for.append(flows.waits_for + first)
        first += count
    waiting, wanted = np.concatenate(waits), np.concatenate(waits_for)
    order = np.lexsort((wanted, waiting))
    after_first, after = _none(), _none()
    if len(order):
        after_first = np.concatenate(([0], np.cumsum(np.bincount(waiting, minlength=first)))).astype(np.int64)
        after = wanted[order]
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Flows(**whole, after_first=after_first, after=after)


def repeated(flows: JobFlows, times: int) -> JobFlows:
    """The same flows again and again: a rank begins anew when what nothing else waited for has arrived, of that which
    it sent or received."""
    if times == 1:
        return flows
    count = len(flows)
    few_enough(times * count)
    begins = np.setdiff1d(np.arange(count), flows.waits)
    ends = np.setdiff1d(np.arange(count), flows.waits_for)
    of_rank: dict[int, list[int]] = {}
    for row in ends.tolist():
        for rank in (int(flows.source[row]), int(flows.destination[row])):
            of_rank.setdefault(rank, []).append(row)
    again = [(row, end) for row in begins.tolist() for end in of_rank.get(int(flows.source[row]), ())]
    few_enough(times * len(again))
    pairs = np.array(again, np.int64).reshape(-1, 2)
    shifts = np.arange(times, dtype=np.int64) * count
    later = shifts[1:, None]
    return JobFlows(
        np.tile(flows.source, times),
        np.tile(flows.destination, times),
        np.tile(flows.bytes, times),
        start_ns=np.tile(flows.start_ns, times),
        waits=np.concatenate(((flows.waits + shifts[:, None]).ravel(), (pairs[:, 0] + later).ravel())),
        waits_for=np.concatenate(((flows.waits_for + shifts[:, None]).ravel(), (pairs[:, 1] + later - count).ravel())),
    )
