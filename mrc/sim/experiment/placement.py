# SPDX-License-Identifier: BSD-2-Clause
"""Which hosts a job runs on: it names them, and may share them with others, or takes free ones by a policy."""

from __future__ import annotations

import numpy as np

from mrc.errors import CallerError
from mrc.sim.cluster.setup import Ints, Topology

POLICIES = ("packed", "spread", "random")


class Placement:
    """The hosts of a topology that no job has yet."""

    def __init__(self, topology: Topology, random: np.random.Generator) -> None:
        self._hosts_per_leaf = topology.hosts_per_leaf
        self._free = np.ones(topology.hosts, np.bool_)
        self._random = random

    def take(self, ranks: int, policy: str) -> Ints:
        """Give hosts to the ranks of a job: `packed` the lowest free ones, `spread` one of each leaf in turn, `random`
        any. Raises CallerError where too few are free."""
        free = np.flatnonzero(self._free).astype(np.int64)
        if len(free) < ranks:
            raise CallerError(f"{ranks:,} hosts are wanted, {len(free):,} of {len(self._free):,} are free")
        if policy == "random":
            taken = self._random.permutation(free)[:ranks]
        elif policy == "spread":
            leaf = free // self._hosts_per_leaf
            # The place of each free host among those of its leaf: first all first ones, then all second ones.
            first = np.searchsorted(leaf, leaf, side="left")
            turn = np.arange(len(free)) - first
            taken = free[np.lexsort((leaf, turn))][:ranks]
        else:
            taken = free[:ranks]
        self._free[taken] = False
        return taken

    def take_these(self, hosts: Ints) -> Ints:
        """Give a job the hosts it names, which other jobs may name too: a host is a member of several communicators.

        Raises CallerError for hosts that do not exist and for one that is named twice.
        """
        if len(hosts) and hosts.max() >= len(self._free):
            raise CallerError(f"hosts are 0 to {len(self._free) - 1}, got {int(hosts.max())}")
        unique, counts = np.unique(hosts, return_counts=True)
        if (counts > 1).any():
            raise CallerError(f"host {int(unique[counts > 1][0])} is named twice")
        self._free[hosts] = False
        return hosts
