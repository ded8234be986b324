# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Which direction of which cable a packet leaves a switch by: worked out from numbers, there is no table.

The EV spells the plane and the uplink, as in the lab (mrc.wire.usid): the source host's EV alone decides the way.
"""

from __future__ import annotations

from mrc.sim.cluster.packet_pool import HOP, LINK, MARKS, TO, WAY, WIDTH, PacketPool
from mrc.sim.cluster.setup import Topology

_ARRIVED = -1


class Ways:
    """Directions of cables are numbered as in Topology: 2 * cable upwards, 2 * cable + 1 downwards."""

    def __init__(self, topology: Topology, pool: PacketPool) -> None:
        self._pool = pool
        self._planes = topology.planes
        self._hosts_per_leaf = topology.hosts_per_leaf
        self._leaves = topology.leaves
        self._spines = topology.spines
        self._three_tiers = topology.tiers == 3
        self._leaves_per_pod = topology.leaves_per_pod
        self._pods = topology.pods
        self._cores = topology.cores_per_spine
        self._host_cables = topology.host_cables
        self._leaf_cables = topology.leaf_cables

    def first(self, host: int, plane: int) -> int:
        """The direction by which a host sends on a plane."""
        return 2 * (host * self._planes + plane)

    def host_of(self, direction: int) -> int:
        """The host at the lower end of a cable of its."""
        return (direction >> 1) // self._planes

    def next(self, packet: int) -> int:
        """The direction by which a packet goes on that has come to the end of its own; -1 at its host."""
        at = packet * WIDTH
        hop = self._pool.cells[at + MARKS] & HOP
        self._pool.cells[at + MARKS] += 1
        plane, uplink = self._pool.cells[at + WAY] >> 16, self._pool.cells[at + WAY] & 0xFFFF
        to, direction = self._pool.cells[at + TO], self._pool.cells[at + LINK]
        if self._three_tiers:
            return self._next_of_three(hop, plane, uplink, to, direction, at)
        if hop == 0:
            leaf = self.host_of(direction) // self._hosts_per_leaf
            if leaf != to // self._hosts_per_leaf:
                return 2 * self._leaf_cable(plane, leaf, uplink)
            self._pool.cells[at + MARKS] += 2
            return self._last(plane, to)
        if hop == 1:
            return 2 * self._leaf_cable(plane, to // self._hosts_per_leaf, uplink) + 1
        return self._last(plane, to) if hop == 2 else _ARRIVED

    def _next_of_three(self, hop: int, plane: int, uplink: int, to: int, direction: int, at: int) -> int:
        spine, core, far = uplink // self._cores, uplink % self._cores, to // self._hosts_per_leaf
        if hop == 0:
            leaf = self.host_of(direction) // self._hosts_per_leaf
            if leaf != far:
                return 2 * self._leaf_cable(plane, leaf, spine)
            self._pool.cells[at + MARKS] += 4
            return self._last(plane, to)
        if hop == 1:
            leaf = ((direction >> 1) - self._host_cables) // self._spines % self._leaves
            if leaf // self._leaves_per_pod != far // self._leaves_per_pod:
                return 2 * self._core_cable(plane, leaf // self._leaves_per_pod, spine, core)
            self._pool.cells[at + MARKS] += 2
            return 2 * self._leaf_cable(plane, far, spine) + 1
        if hop == 2:
            return 2 * self._core_cable(plane, far // self._leaves_per_pod, spine, core) + 1
        if hop == 3:
            return 2 * self._leaf_cable(plane, far, spine) + 1
        return self._last(plane, to) if hop == 4 else _ARRIVED

    def _last(self, plane: int, host: int) -> int:
        return 2 * (host * self._planes + plane) + 1

    def _leaf_cable(self, plane: int, leaf: int, spine: int) -> int:
        return self._host_cables + (plane * self._leaves + leaf) * self._spines + spine

    def _core_cable(self, plane: int, pod: int, spine: int, core: int) -> int:
        group = (plane * self._pods + pod) * self._spines + spine
        return self._host_cables + self._leaf_cables + group * self._cores + core
