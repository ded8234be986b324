# SPDX-License-Identifier: BSD-2-Clause
"""A cluster in parts that are computed side by side: each has some hosts, and the cables and queues above them.

The lower end of a cable says whose both its directions are. So a packet changes shards once at most, on the cable up to
the switches that join the shards: spines, or the cores of three tiers.
"""

from __future__ import annotations

import numpy as np

from mrc.records import record
from mrc.sim.cluster.setup import ClusterLink, Flows, Setup, Topology
from mrc.sim.link import OUTER_BYTES

_SHARDS = 1024
# Smaller clusters are one shard: mrc.sim, an object for each packet, is held beside them to the nanosecond.
_LEAST_HOSTS = 512
# So few fit into a processor's cache, and fewer are not worth the packets that go over.
HOSTS_A_SHARD = 64
# In a shorter window too little happens: to wait for each other takes longer than to compute.
LEAST_WINDOW_NS = 100
FOREVER_NS = 1 << 62


@record(frozen=True, slots=True)
class Sharding:
    """`count` shards of `hosts_per_shard` hosts each, the last perhaps of fewer. A packet that leaves a shard comes to
    another `window_ns` later or more: so long they need not look at each other. It leaves by a direction upwards from
    `first_between` on."""

    topology: Topology
    count: int
    hosts_per_shard: int
    window_ns: int
    first_between: int

    def of_host(self, host: int) -> int:
        """The shard of a host."""
        return host // self.hosts_per_shard

    def of_cable(self, cable: int) -> int:
        """The shard of both directions of a cable."""
        topology = self.topology
        if cable < topology.host_cables:
            return self.of_host(cable // topology.planes)
        cable -= topology.host_cables
        if cable < topology.leaf_cables:
            return self.of_host(cable // topology.spines % topology.leaves * topology.hosts_per_leaf)
        group = (cable - topology.leaf_cables) // topology.cores_per_spine
        pod = group // topology.spines % topology.pods
        return self.of_host(pod * topology.leaves_per_pod * topology.hosts_per_leaf)


def sharding(setup: Setup, flows: Flows) -> Sharding:
    """How the hosts of a setup are divided. It does not depend on the number of threads.

    There is one shard where a flow waits for one that ends in another: it would begin there in the same nanosecond.
    """
    topology = setup.topology
    wanted = setup.shards or (min(_SHARDS, topology.hosts // HOSTS_A_SHARD) if topology.hosts >= _LEAST_HOSTS else 1)
    # What is joined below the top tier stays together.
    together = topology.hosts_per_leaf * (topology.leaves_per_pod if topology.tiers == 3 else 1)
    blocks = topology.hosts // together
    hosts_per_shard = -(-blocks // min(wanted, blocks)) * together
    window_ns = _window_ns(setup.fabric_link)
    between = topology.host_cables + (topology.leaf_cables if topology.tiers == 3 else 0)
    if hosts_per_shard >= topology.hosts or window_ns < LEAST_WINDOW_NS or _waits_across(flows, hosts_per_shard):
        return Sharding(topology, 1, topology.hosts, FOREVER_NS, 2 * between)
    count = -(-topology.hosts // hosts_per_shard)
    return Sharding(topology, count, hosts_per_shard, window_ns, 2 * between)


def _window_ns(link: ClusterLink) -> int:
    """The least time from the first bit of any packet on a cable to its arrival."""
    return link.delay_ns + (link.framing_bytes + OUTER_BYTES) * 8_000_000_000 // link.rate_bps


def _waits_across(flows: Flows, hosts_per_shard: int) -> bool:
    if not len(flows.after):
        return False
    waiting = np.repeat(np.arange(len(flows)), np.diff(flows.after_first))
    begins, ends = flows.source[waiting] // hosts_per_shard, flows.destination[flows.after] // hosts_per_shard
    return bool((begins != ends).any())
