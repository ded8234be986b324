# SPDX-License-Identifier: BSD-2-Clause
"""Failures of cables, switches and planes as they happen to the directions of cables and to the hosts' ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.sim.cluster.directions import Directions
from mrc.sim.cluster.hosts import Hosts
from mrc.sim.cluster.setup import Action, Failures, Ints, Target, Topology
from mrc.sim.cluster.shard import Shard
from mrc.sim.cluster.sharding import Sharding


def cables_of_switch(topology: Topology, switch: int) -> Ints:
    """All cables of a switch, by its number in the topology."""
    if switch < topology.leaf_switches:
        plane, leaf = divmod(switch, topology.leaves)
        hosts = range(leaf * topology.hosts_per_leaf, (leaf + 1) * topology.hosts_per_leaf)
        below = [topology.host_cable(plane, host) for host in hosts]
        return np.array(below + [topology.leaf_cable(plane, leaf, spine) for spine in range(topology.spines)])
    switch -= topology.leaf_switches
    if switch < topology.spine_switches:
        group, spine = divmod(switch, topology.spines)
        plane, pod = divmod(group, topology.pods)
        leaves = topology.leaves // topology.pods
        below = [topology.leaf_cable(plane, leaf, spine) for leaf in range(pod * leaves, (pod + 1) * leaves)]
        cores = range(topology.cores_per_spine if topology.tiers == 3 else 0)
        return np.array(below + [topology.core_cable(plane, pod, spine, core) for core in cores])
    group, core = divmod(switch - topology.spine_switches, topology.cores_per_spine)
    plane, spine = divmod(group, topology.spines)
    return np.array([topology.core_cable(plane, pod, spine, core) for pod in range(topology.pods)])


def cables_of_plane(topology: Topology, plane: int) -> Ints:
    """All cables of a plane."""
    hosts = plane + topology.planes * np.arange(topology.hosts)
    first, last = topology.leaf_cable(plane, 0, 0), topology.leaf_cable(plane + 1, 0, 0)
    found = [hosts, np.arange(first, last)]
    if topology.tiers == 3:
        found.append(np.arange(topology.core_cable(plane, 0, 0, 0), topology.core_cable(plane + 1, 0, 0, 0)))
    return np.concatenate(found)


def directions_of(topology: Topology, target: Target, which: int) -> Ints:
    """The directions of cables that a failure of this target hits."""
    if target in (Target.UPWARD, Target.DOWNWARD):
        return np.array([2 * which + (target == Target.DOWNWARD)])
    if target == Target.CABLE:
        cables = np.array([which])
    else:
        cables = cables_of_switch(topology, which) if target == Target.SWITCH else cables_of_plane(topology, which)
    return np.concatenate([2 * cables, 2 * cables + 1])


class Faults:
    """Failures in order of time. A direction is up while nothing that it belongs to is down.

    `on_changed` is called with each direction between switches that goes down or comes up, whether it is up, and when.
    """

    def __init__(
        self, failures: Failures, directions: Directions, sharding: Sharding, shards: Sequence[Shard], hosts: Hosts,
        on_changed: Callable[[int, bool, int], None],
    ) -> None:  # fmt: skip
        self._topology = sharding.topology
        self._failures = failures
        self._directions = directions
        self._sharding = sharding
        self._shards = shards
        self._hosts = hosts
        self._on_changed = on_changed
        self._next = 0
        # What is down, and by direction how many of these it belongs to.
        self._down: set[tuple[Target, int]] = set()
        self._times: dict[int, int] = {}

    def next_at(self) -> int:
        """When the next one is, ns; FOREVER without any."""
        return int(self._failures.time_ns[self._next]) if self._next < len(self._failures) else FOREVER

    def apply(self, now: int) -> None:
        """Let those happen that are due."""
        while self.next_at() <= now:
            row = self._next
            self._next += 1
            target, which = Target(int(self._failures.target[row])), int(self._failures.which[row])
            action = Action(int(self._failures.action[row]))
            directions = directions_of(self._topology, target, which).tolist()
            if action == Action.LOSS:
                for direction in directions:
                    self._directions.set_loss(direction, float(self._failures.value[row]))
            elif ((target, which) in self._down) == (action == Action.UP):
                self._switch(target, which, directions, action == Action.UP, now)

    def _switch(self, target: Target, which: int, directions: list[int], up: bool, now: int) -> None:
        (self._down.discard if up else self._down.add)((target, which))
        hosts = set()
        for direction in directions:
            self._times[direction] = self._times.get(direction, 0) + (-1 if up else 1)
            shard = self._shards[self._sharding.of_cable(direction >> 1)]
            changed = shard.egresses.set_up(direction, not self._times[direction], now)
            if not changed:
                continue
            if direction < 2 * self._topology.host_cables:
                hosts.add(divmod(direction >> 1, self._topology.planes))
            else:
                self._on_changed(direction, not self._times[direction], now)
        if target in (Target.UPWARD, Target.DOWNWARD):
            # A host sees no more of it than that packets do not come through.
            return
        for host, plane in sorted(hosts):
            cable = self._topology.host_cable(plane, host)
            both = self._directions.is_up(2 * cable) and self._directions.is_up(2 * cable + 1)
            endpoint = self._hosts.endpoints.get(host)
            if endpoint is not None:
                endpoint.set_port(plane, both, now)
                self._shards[self._sharding.of_host(host)].machine.call(host)
