"""Cables, switches and planes that go down, lose packets and come back."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_setups import BUSY, NSCC, PLAIN, permutation

from mrc.endpoint.paths.states import EvState
from mrc.sim.cluster import Action, Failures, Setup, Target, Topology, run
from mrc.sim.cluster.faults import cables_of_switch, directions_of
from mrc.sim.cluster.run import Run

TOPOLOGY = Topology(16, planes=2, hosts_per_leaf=4, spines=4)
THREE_TIERS = Topology(16, planes=2, hosts_per_leaf=2, spines=2, tiers=3, leaves_per_pod=2, cores_per_spine=3)
TOPOLOGY_OF_32 = Topology(32, planes=2, hosts_per_leaf=4, spines=8)
CUT_AT = 5_000


def failing(*rows: tuple[int, Target, int, Action], value: float = 0.0) -> Failures:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    return Failures(*columns, np.full(len(rows), value))


def outcome_of(*rows: tuple[int, Target, int, Action], value: float = 0.0, size: int = 400_000):
    return run(Setup(TOPOLOGY, permutation(16, size), BUSY, PLAIN, failures=failing(*rows, value=value), policies=NSCC))


def test_flows_complete_though_cables_are_cut_and_data_leaves_the_dead_paths() -> None:
    """Spine 0 of plane 0 dies: every path over it is dead, in both directions."""
    outcome = outcome_of((CUT_AT, Target.SWITCH, TOPOLOGY.spine_switch(0, 0), Action.DOWN))
    assert (outcome.flows.completed > CUT_AT).all()
    assert outcome.conservation.lost > 0
    # A loss is known a round trip after it, or with a hole soon after; then the EV is left.
    round_trip = 4 * (354 + 2 * 500)
    last = outcome.paths.last_sent[0]
    assert CUT_AT - 2_000 < last < CUT_AT + 6 * round_trip
    assert (outcome.paths.last_sent[1:] > last).all()


@pytest.mark.parametrize("cut", [1, 3])
def test_no_data_leaves_on_a_dead_path_once_its_loss_is_known(cut: int) -> None:
    """Cables between leaves and spines are cut. Each QP finds the loss on each EV that passes them by itself."""
    hosts, cables = 32, [TOPOLOGY_OF_32.leaf_cable(0, number, 2 * number) for number in range(cut)]
    failures = failing(*[(CUT_AT, Target.CABLE, cable, Action.DOWN) for cable in cables])
    work = permutation(hosts, 400_000, step=hosts // 2)
    simulation = Run(Setup(TOPOLOGY_OF_32, work, BUSY, PLAIN, failures=failures, policies=NSCC))
    for endpoint in simulation.hosts.endpoints.values():
        endpoint.ev_events.wanted = frozenset({EvState.ASSUMED_BAD})
    outcome = simulation.run()
    assert (outcome.flows.completed > CUT_AT).all()
    found, per_leaf = [], TOPOLOGY_OF_32.hosts_per_leaf
    for host, endpoint in simulation.hosts.endpoints.items():
        leaves = {host // per_leaf, (host + hosts // 2) % hosts // per_leaf}
        dead = {2 * number for number in leaves & set(range(cut))}
        for event in endpoint.ev_events.queue:
            if event.ev in dead and event.at_ns >= CUT_AT:
                evs = endpoint.qps[event.qpn].paths.table
                found.append(evs.last_sent_at[evs.index_of(event.ev)] - event.at_ns)
    # Four hosts under the leaf of each cable and their partners have an EV that passes it.
    assert len(found) >= cut * 8
    # Nothing after it; the bound of the requirement is two round trips.
    assert max(found) <= 0


def test_a_host_sees_its_own_port_go_and_nothing_is_sent_there() -> None:
    cable = TOPOLOGY.host_cable(1, 3)
    outcome = outcome_of((CUT_AT, Target.CABLE, cable, Action.DOWN))
    assert (outcome.flows.completed > 0).all()
    # One packet was perhaps being sent.
    assert outcome.links.lost[2 * cable] + outcome.links.lost[2 * cable + 1] > 0
    whole = outcome_of((10**8, Target.CABLE, cable, Action.DOWN))
    assert outcome.links.packets[2 * cable] < whole.links.packets[2 * cable]


def test_what_is_back_carries_packets_again() -> None:
    cable = TOPOLOGY.host_cable(1, 3)
    cut = (CUT_AT, Target.CABLE, cable, Action.DOWN)
    for_good, back = outcome_of(cut), outcome_of(cut, (9_000, Target.CABLE, cable, Action.UP))
    assert back.links.packets[2 * cable] > for_good.links.packets[2 * cable]
    assert (back.flows.completed > 0).all()


def test_a_plane_that_dies_costs_half_of_two() -> None:
    outcome = outcome_of((0, Target.PLANE, 0, Action.DOWN))
    assert (outcome.flows.completed > 0).all()
    # But for what hosts 0 to 15 had been asked for before they saw it: packets and EV probes of the first nanosecond.
    assert (outcome.paths.last_sent[: TOPOLOGY.spines] <= 0).all()


def test_one_direction_alone() -> None:
    cable = TOPOLOGY.leaf_cable(0, 1, 2)
    outcome = outcome_of((0, Target.DOWNWARD, cable, Action.DOWN))
    assert outcome.links.lost[2 * cable + 1] > 0
    assert outcome.links.lost[2 * cable] == 0


def test_a_lossy_cable_loses_its_share() -> None:
    cable = TOPOLOGY.leaf_cable(0, 1, 2)
    outcome = outcome_of((0, Target.CABLE, cable, Action.LOSS), value=0.3)
    assert (outcome.flows.completed > 0).all()
    lost, packets = outcome.links.lost[2 * cable], outcome.links.packets[2 * cable]
    assert 0 < lost < packets
    assert outcome.links.lost.sum() == lost + outcome.links.lost[2 * cable + 1]


@pytest.mark.parametrize("topology", [TOPOLOGY, THREE_TIERS], ids=["two tiers", "three tiers"])
def test_a_cable_belongs_to_the_switches_at_its_ends(topology: Topology) -> None:
    """Every cable between switches is one of exactly two, a host's of exactly one; and of exactly one plane."""
    ends = np.zeros(topology.cables, int)
    for switch in range(topology.switches):
        ends[cables_of_switch(topology, switch)] += 1
    assert (ends[: topology.host_cables] == 1).all()
    assert (ends[topology.host_cables :] == 2).all()
    planes = [directions_of(topology, Target.PLANE, plane) for plane in range(topology.planes)]
    assert sorted(np.concatenate(planes).tolist()) == list(range(2 * topology.cables))
