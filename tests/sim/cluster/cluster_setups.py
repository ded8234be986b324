# SPDX-License-Identifier: BSD-2-Clause
"""Setups that the tests of mrc.sim.cluster share, and what the same is in mrc.sim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.cluster import ClusterLink, Flows, Outcome, Policies, Setup, Topology

GBIT = 10**9
RATE, DELAY_NS = 100 * GBIT, 500
# What trims, marks and drops: queues of a few tens of packets.
BUSY = ClusterLink(
    RATE, DELAY_NS, queue_bytes=200_000, trim_at_bytes=60_000, ecn_low_bytes=30_000, ecn_high_bytes=30_000
)
PLAIN = ClusterLink(RATE, DELAY_NS)
FIXED = Policies(evs=None, controller="fixed")
NSCC = Policies(evs=None)


def flows(source: list[int], destination: list[int], size: int, start_ns: int = 0) -> Flows:
    count = len(source)
    return Flows(np.array(source), np.array(destination), np.full(count, size), np.full(count, start_ns))


def permutation(hosts: int, size: int, step: int = 5) -> Flows:
    """Each host to one other, none to itself."""
    return flows(list(range(hosts)), [(host + step) % hosts for host in range(hosts)], size)


def incast(hosts: int, size: int) -> Flows:
    """All others to host 0."""
    return flows(list(range(1, hosts)), [0] * (hosts - 1), size)


def all_to_all(hosts: int, size: int) -> Flows:
    pairs = [(near, far) for near in range(hosts) for far in range(hosts) if near != far]
    return flows([near for near, _ in pairs], [far for _, far in pairs], size)


def busy(topology: Topology, work: Flows, policies: Policies = NSCC, seed: int = 0) -> Setup:
    """Links that trim and mark, but for those of the hosts, which do not mark."""
    host_link = replace(BUSY, ecn_low_bytes=None, ecn_high_bytes=None)
    return Setup(topology, work, BUSY, host_link, policies=policies, seed=seed)


def in_mrc_sim(setup: Setup) -> dict[str, object]:
    """The same in mrc.sim: FCTs, and what was trimmed, marked, dropped and sent again."""
    topology, link = setup.topology, setup.fabric_link
    model = LinkModel(
        link.rate_bps,
        link.delay_ns,
        queue_bytes=link.queue_bytes,
        trim_at_bytes=link.trim_at_bytes,
        ecn_at_bytes=link.ecn_low_bytes,
    )
    shape = Clos(topology.planes, topology.leaves, topology.spines, topology.hosts_per_leaf)
    fabric = SimFabric(shape, model, seed=setup.seed)
    made = {}
    for a, b in zip(setup.flows.source.tolist(), setup.flows.destination.tolist(), strict=True):
        if (a, b) not in made:
            made[a, b], made[b, a] = fabric.connect(f"h{a}", f"h{b}", setup.policies.qp, setup.policies.controller)
    qps = [made[ends] for ends in zip(setup.flows.source.tolist(), setup.flows.destination.tolist(), strict=True)]
    writes = [fabric.write(qp, int(size)) for qp, size in zip(qps, setup.flows.bytes, strict=True)]
    assert fabric.run(10**9, lambda: all(write.done for write in writes))
    counters = [egress.counters for egress in fabric.egresses.values()]
    return {
        "fct": [write.completed_at for write in writes],
        "trimmed": sum(each.trimmed for each in counters),
        "marked": sum(each.marked for each in counters),
        "dropped": sum(each.dropped for each in counters),
        "again": sum(qp.counters.retransmitted_packets for qp in qps),
    }


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes are the same but for how long they took."""
    tables, others = one.columns(), other.columns()
    counts = [(each.conservation, each.end_ns, each.events, each.packet_hops) for each in (one, other)]
    return counts[0] == counts[1] and all(
        np.array_equal(column, others[table][name])
        for table, columns in tables.items()
        for name, column in columns.items()
    )


def figures(outcome: Outcome) -> dict[str, object]:
    """The same of an outcome."""
    return {
        "fct": outcome.flows.fct_ns.tolist(),
        "trimmed": int(outcome.links.trimmed.sum()),
        "marked": int(outcome.links.marked.sum()),
        "dropped": int(outcome.links.dropped.sum()),
        "again": int(outcome.qps.retransmissions.sum()),
    }
