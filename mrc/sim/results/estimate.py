# SPDX-License-Identifier: BSD-2-Clause
"""What a run will take, before it starts: packets, their hops, time and memory."""

from __future__ import annotations

import numpy as np

from mrc.records import record
from mrc.sim.cluster import Setup
from mrc.sim.cluster.sharding import sharding

# Measured on two cores of a machine of 2025 with the compiled core, 128 to 8,192 hosts (docs/simulation.md).
HOPS_PER_SECOND = 1_000_000
_OUTER_BYTES = 170  # headers and framing of a data packet
_ANSWERS = 2.0  # hops with those of ACKs and SACKs: as many, by what runs of 128 hosts had
_BYTES_AT_LEAST = 90_000_000  # of a process that has everything imported
_BYTES_PER_FLOW = 400
# Of an endpoint with its NIC, of a QP at one end, of each of its EVs, and of each packet that its window holds.
_BYTES_PER_HOST = 65_000
_BYTES_PER_QP, _BYTES_PER_EV, _BYTES_PER_PACKET = 60_000, 60, 80
_BYTES_PER_CABLE = 300
_BYTES_PER_SAMPLE = 600


@record(frozen=True, slots=True)
class Estimate:
    """`packets` of data without retransmissions, `hops` over all links with answers, `seconds`, and `bytes` of
    memory. `ideal_us`: the least simulated time by the rates of the hosts' ports."""

    packets: int
    hops: int
    seconds: float
    bytes: int
    ideal_us: float


def estimate(setup: Setup, threads: int = 1, hops_per_second: float = HOPS_PER_SECOND) -> Estimate:
    """From the flows alone: dependencies and congestion are not looked at. `threads` have a core each."""
    flows, topology = setup.flows, setup.topology
    mtu = setup.policies.qp.path_mtu
    port_bps = setup.host_link.rate_bps * topology.planes
    packets_of = -(-flows.bytes // mtu)
    wire_bytes = flows.bytes + packets_of * _OUTER_BYTES
    sent = np.bincount(flows.source, wire_bytes, topology.hosts)
    received = np.bincount(flows.destination, wire_bytes, topology.hosts)
    ideal_s = max(float(sent.max()), float(received.max())) * 8 / port_bps if len(flows) else 0.0
    share = min(1.0, setup.end_ns / 1e9 / ideal_s) if ideal_s else 1.0
    leaf = flows.source // topology.hosts_per_leaf, flows.destination // topology.hosts_per_leaf
    links = np.where(leaf[0] == leaf[1], 2, 4)
    if topology.tiers == 3:
        pod = leaf[0] // topology.leaves_per_pod, leaf[1] // topology.leaves_per_pod
        links = np.where(pod[0] == pod[1], links, 6)
    packets = int(packets_of.sum() * share)
    hops = int(float((packets_of * links).sum()) * share * _ANSWERS)
    memory = _BYTES_AT_LEAST + len(flows) * _BYTES_PER_FLOW + topology.cables * 2 * _BYTES_PER_CABLE
    memory += _bytes_of_qps(setup)
    if setup.sample_ns:
        memory += int(min(setup.end_ns, ideal_s * 1e9) / setup.sample_ns) * _BYTES_PER_SAMPLE
    at_once = min(threads, sharding(setup, flows).count)
    return Estimate(packets, hops, hops / hops_per_second / at_once, memory, ideal_s * 1e6)


def _bytes_of_qps(setup: Setup) -> int:
    """Of all endpoints and their QPs: two hosts that write to each other have one at each end."""
    flows, topology, policies = setup.flows, setup.topology, setup.policies
    near, far = np.minimum(flows.source, flows.destination), np.maximum(flows.source, flows.destination)
    pairs = len(np.unique(near * topology.hosts + far))
    hosts = len(np.union1d(flows.source, flows.destination))
    evs = min(policies.evs or topology.planes * topology.uplinks, topology.planes * topology.uplinks)
    each = _BYTES_PER_QP + evs * _BYTES_PER_EV + policies.qp.send_window * _BYTES_PER_PACKET
    return hosts * _BYTES_PER_HOST + 2 * pairs * each
