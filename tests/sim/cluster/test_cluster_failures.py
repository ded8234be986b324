# SPDX-License-Identifier: BSD-2-Clause
"""Cables, switches and planes that go down, lose packets and come back."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_setups import BUSY, NSCC, PLAIN, permutation

from mrc.sim.cluster import Action, Failures, Setup, Target, Topology, run
from mrc.sim.cluster.faults import cables_of_switch, directions_of

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
    outcome = run(Setup(TOPOLOGY_OF_32, work, BUSY, PLAIN, failures=failures, policies=NSCC))
    assert (outcome.flows.completed > CUT_AT).all()
    outages = outcome.outages
    assert outages.direction.tolist() == sorted(2 * cable + way for cable in cables for way in (0, 1))
    assert (outages.down == CUT_AT).all()
    assert (outages.up == -1).all()
    # Upwards the four hosts under the leaf send, downwards the four whose peers they are; each finds it.
    assert (outages.qps == 4).all()
    assert (outages.found == 4).all()
    assert (outages.first_found > CUT_AT).all()
    assert (outages.last_found >= outages.first_found).all()
    # Nothing after a QP has found a loss itself. From the first that finds one to the last data of all of them it is
    # at most two round trips.
    assert (outages.sent_on == 0).all()
    assert (outages.last_sent - outages.first_found <= 2 * np.median(outcome.qps.rtt)).all()


def test_each_time_that_a_cable_is_down_is_an_outage() -> None:
    """All QPs find the first. Their EVs are out of use when the second comes: it takes nothing from anybody."""
    cable = TOPOLOGY.leaf_cable(0, 1, 2)
    times = [(CUT_AT, Action.DOWN), (60_000, Action.UP), (80_000, Action.DOWN), (90_000, Action.UP)]
    outages = outcome_of(*[(at, Target.UPWARD, cable, action) for at, action in times], size=2_000_000).outages
    assert outages.direction.tolist() == [2 * cable] * 2
    assert outages.down.tolist() == [CUT_AT, 80_000]
    assert outages.up.tolist() == [60_000, 90_000]
    assert outages.qps.tolist() == [4, 4]
    assert outages.found.tolist() == [4, 0]
    assert CUT_AT < outages.first_found[0] <= outages.last_found[0] < 60_000
    assert CUT_AT <= outages.last_sent[0] <= outages.last_found[0]
    assert [column[1] for column in (outages.first_found, outages.last_found, outages.last_sent)] == [-1, -1, -1]


def test_hosts_know_of_their_own_cables_and_a_lossy_cable_is_not_down() -> None:
    own = (CUT_AT, Target.CABLE, TOPOLOGY.host_cable(0, 3), Action.DOWN)
    assert not len(outcome_of(own).outages.direction)
    lossy = (CUT_AT, Target.CABLE, TOPOLOGY.leaf_cable(0, 1, 2), Action.LOSS)
    assert not len(outcome_of(lossy, value=0.1).outages.direction)


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
