# SPDX-License-Identifier: BSD-2-Clause
"""Groups in virtual time: a rank on each host of a simulated fabric, all in one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mrc.collectives import Group, GroupConfig, MemoryStore
from mrc.collectives.work import Work
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.device import SimDevice

# Small enough that arrays of some kilobytes take every way there is.
SMALL = GroupConfig(
    eager_bytes=512, eager_slots=8, chunk_bytes=4096, window=4, doubling_bytes=512, halving_bytes=4096, registrations=4
)
PATIENCE_S = 60.0


class World:
    """`groups` by rank, their `fabric` and `store`."""

    def __init__(self, size: int, config: GroupConfig = SMALL, link: LinkModel | None = None, seed: int = 1) -> None:
        self.fabric = SimFabric(Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=(size + 1) // 2), link, seed=seed)
        self.store = MemoryStore()
        self.size = size
        self.groups = [
            Group(SimDevice(self.fabric, f"h{rank}"), self.store, rank, size, config) for rank in range(size)
        ]

    def all(self, call: Callable[[Group], Work], order: Sequence[int] | None = None) -> None:
        """Call the same at every rank, and wait for all of them."""
        works = [call(self.groups[rank]) for rank in order or range(self.size)]
        for work in works:
            work.wait(PATIENCE_S)

    def close(self) -> None:
        for group in self.groups:
            group.close()


@contextmanager
def world(size: int, **options: Any) -> Iterator[World]:
    """A world whose groups are closed in the end; where something went wrong without waiting for what is under way."""
    made = World(size, **options)
    try:
        yield made
    except BaseException as error:
        for group in made.groups:
            group.__exit__(type(error), error, None)
        raise
    made.close()
