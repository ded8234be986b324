# SPDX-License-Identifier: BSD-2-Clause
"""Clusters small enough to work out by hand what must come of them."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_setups import DELAY_NS, FIXED, PLAIN, RATE, flows, incast

from mrc.endpoint.config import QpConfig
from mrc.sim.cluster import ClusterLink, Flows, Policies, Setup, Topology, run

# A full packet on the cable: Ethernet's framing 38, outer IPv6 40, IPv6 40, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16,
# payload, ICRC 4. A SACK: the same to the BTH, SETH 28, CC state 8, ICRC 4. The ACK behind it: AETH 4 in their place.
DATA = 38 + 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4096 + 4
SACK = 38 + 40 + 40 + 8 + 12 + 28 + 8 + 4
ACK = SACK - 32
DATA_NS, SACK_NS, ACK_NS = (size * 8 * 10**9 // RATE for size in (DATA, SACK, ACK))
# Enough that no window is ever shut.
WIDE = Policies(
    qp=QpConfig(mpr=64, mpr_dest=64), evs=None, controller="fixed", controller_settings=(("window_packets", 4096),)
)


@pytest.mark.parametrize(("tiers", "peer", "hops"), [(2, 1, 2), (2, 2, 4), (3, 1, 2), (3, 2, 4), (3, 4, 6)])
def test_one_packet_takes_its_serialisation_and_the_delay_of_each_link_and_so_does_its_sack(
    tiers: int, peer: int, hops: int
) -> None:
    """To a host on the same leaf, in the same pod, in another pod. The ACK goes another way and is shorter: after six
    hops it is there before the SACK."""
    pods = {"leaves_per_pod": 2, "cores_per_spine": 2} if tiers == 3 else {}
    topology = Topology(8, planes=1, hosts_per_leaf=2, spines=2, tiers=tiers, **pods)
    outcome = run(Setup(topology, flows([0], [peer], 4096), PLAIN, PLAIN, policies=FIXED))
    assert outcome.flows.arrived.tolist() == [hops * (DATA_NS + DELAY_NS)]
    answered = min(hops * SACK_NS, SACK_NS + hops * ACK_NS) if hops > 2 else hops * SACK_NS
    assert outcome.flows.fct_ns.tolist() == [hops * (DATA_NS + 2 * DELAY_NS) + answered]


def test_packets_of_one_flow_on_one_path_follow_each_other_at_line_rate() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=2, spines=1)
    outcome = run(Setup(topology, flows([0], [2], 200 * 4096), PLAIN, PLAIN, policies=WIDE))
    assert outcome.flows.arrived.tolist() == [4 * (DATA_NS + DELAY_NS) + 199 * DATA_NS]


def test_two_flows_through_one_link_share_its_rate() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=2, spines=1)
    outcome = run(Setup(topology, flows([0, 1], [2, 3], 200 * 4096), PLAIN, PLAIN, policies=WIDE))
    # The link to the spine carries 400 packets one behind the other, and the last of them arrives two links later.
    last = DATA_NS + DELAY_NS + 400 * DATA_NS + DELAY_NS + 2 * (DATA_NS + DELAY_NS)
    assert outcome.flows.arrived.max() == last
    # Neither is served before the other: they end within a few packets of each other.
    assert np.ptp(outcome.flows.arrived) <= 4 * DATA_NS
    assert outcome.links.packets[2 * topology.leaf_cable(0, 0, 0)] == 400 + outcome.qps.probes.sum()


def test_an_incast_drains_at_the_rate_of_the_last_link() -> None:
    topology = Topology(8, planes=1, hosts_per_leaf=1, spines=8)
    outcome = run(Setup(topology, incast(8, 100 * 4096), PLAIN, PLAIN, policies=WIDE))
    assert outcome.flows.arrived.max() == 3 * (DATA_NS + DELAY_NS) + 700 * DATA_NS + DELAY_NS
    assert outcome.links.packets[2 * topology.host_cable(0, 0) + 1] == 700 + outcome.qps.probes.sum()
    # All of what was ahead of the last packet waited there at some time, but for what had left by then.
    assert 500 * 4224 < outcome.links.largest_queue[2 * topology.host_cable(0, 0) + 1] < 700 * 4224


def test_a_slower_link_decides() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=2, spines=1)
    slow = ClusterLink(rate_bps=RATE // 10, delay_ns=DELAY_NS)
    outcome = run(Setup(topology, flows([0], [2], 50 * 4096), slow, PLAIN, policies=WIDE))
    assert outcome.flows.arrived[0] == 2 * (DATA_NS + DELAY_NS) + 51 * (DATA * 80 * 10**9 // RATE) + 2 * DELAY_NS


def test_a_flow_starts_when_those_it_waits_for_have_arrived() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=1, spines=4)
    # 0 to 1, 1 to 2, 2 to 3, each after the one before; the last no sooner than at 1 ms.
    chain = Flows(
        np.array([0, 1, 2]), np.array([1, 2, 3]), np.full(3, 100_000), np.array([700, 0, 1_000_000]),
        after_first=np.array([0, 0, 1, 2]), after=np.array([0, 1]),
    )  # fmt: skip
    outcome = run(Setup(topology, chain, PLAIN, PLAIN, policies=FIXED))
    assert outcome.flows.started.tolist() == [700, outcome.flows.arrived[0], 1_000_000]
    assert (outcome.flows.arrived > outcome.flows.started).all()


def test_flows_of_one_pair_arrive_one_after_the_other_on_one_qp() -> None:
    topology = Topology(4, planes=2, hosts_per_leaf=2, spines=2)
    outcome = run(Setup(topology, flows([0, 0, 0, 2], [2, 2, 2, 0], 50_000), PLAIN, PLAIN, policies=FIXED))
    assert outcome.flows.qp.tolist() == [0, 0, 0, 1]
    assert (np.diff(outcome.flows.arrived[:3]) > 0).all()
    assert outcome.qps.placed_bytes.tolist() == [150_000, 50_000]


def test_what_has_no_time_to_arrive_is_in_flight() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=2, spines=1)
    work = flows([0], [2], 200 * 4096)
    outcome = run(Setup(topology, work, PLAIN, PLAIN, policies=WIDE, end_ns=3 * (DATA_NS + DELAY_NS)))
    assert outcome.flows.arrived.tolist() == [-1]
    assert outcome.flows.status.tolist() == [-1]
    assert outcome.conservation.delivered == 0
    assert outcome.conservation.in_flight == outcome.conservation.sent > 2


def test_a_series_counts_what_happened_between_its_rows() -> None:
    topology = Topology(4, planes=1, hosts_per_leaf=2, spines=1)
    work = flows([0], [2], 200 * 4096)
    outcome = run(Setup(topology, work, PLAIN, PLAIN, policies=WIDE, sample_ns=10_000))
    series = outcome.series
    assert series.time_ns.tolist() == [*range(10_000, outcome.end_ns, 10_000), outcome.end_ns]
    # At 100 Gbit/s a full packet each 340 ns.
    assert abs(series.placed_bytes[3] - 10_000 // DATA_NS * 4096) <= 4096
    assert series.placed_bytes.sum() == 200 * 4096
