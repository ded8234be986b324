# SPDX-License-Identifier: BSD-2-Clause
"""The way of a packet, worked out from numbers, against the cables and switches of the topology."""

from __future__ import annotations

import itertools

import pytest

from mrc.sim.cluster import Topology
from mrc.sim.cluster.faults import cables_of_switch
from mrc.sim.cluster.outages import directions_between
from mrc.sim.cluster.packet_pool import LINK, MARKS, TO, WAY, WIDTH, PacketPool
from mrc.sim.cluster.ways import Ways

TWO = Topology(12, planes=2, hosts_per_leaf=3, spines=3)
THREE = Topology(16, planes=2, hosts_per_leaf=2, spines=2, tiers=3, leaves_per_pod=2, cores_per_spine=3)


def way(topology: Topology, source: int, to: int, plane: int, uplink: int) -> list[int]:
    """The directions that a packet takes."""
    pool = PacketPool(1)
    ways, packet = Ways(topology, pool), pool.take()
    pool.cells[packet * WIDTH + TO], pool.cells[packet * WIDTH + WAY] = to, plane << 16 | uplink
    pool.cells[packet * WIDTH + MARKS] = 0
    taken, direction = [], ways.first(source, plane)
    while direction >= 0:
        taken.append(direction)
        pool.cells[packet * WIDTH + LINK] = direction
        direction = ways.next(packet)
    return taken


@pytest.mark.parametrize("topology", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_each_cable_begins_at_the_switch_where_the_one_before_ended(topology: Topology) -> None:
    switches: list[set[int]] = [set() for _ in range(topology.cables)]
    for switch in range(topology.switches):
        for cable in cables_of_switch(topology, switch).tolist():
            switches[cable].add(switch)
    for source in range(topology.hosts):
        for to in set(range(topology.hosts)) - {source}:
            for plane in range(topology.planes):
                used = set()
                for uplink in range(topology.uplinks):
                    taken = way(topology, source, to, plane, uplink)
                    cables = [direction >> 1 for direction in taken]
                    assert taken[0] == 2 * topology.host_cable(plane, source)
                    assert taken[-1] == 2 * topology.host_cable(plane, to) + 1
                    # Up to the middle, then down, by as many hops.
                    up = len(taken) // 2
                    assert [direction & 1 for direction in taken] == [0] * up + [1] * up
                    passed = [switches[one] & switches[other] for one, other in itertools.pairwise(cables)]
                    assert all(len(each) == 1 for each in passed)
                    used.add(tuple(min(each) for each in passed))
                far = topology.uplinks if len(cables) == 2 * topology.tiers else None
                assert far is None or len(used) == far, "every uplink is a way of its own"


@pytest.mark.parametrize("topology", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_what_an_outage_takes_for_the_way_of_a_pair_is_its_packets_way(topology: Topology) -> None:
    for source, to in itertools.permutations(range(topology.hosts), 2):
        for plane, uplink in itertools.product(range(topology.planes), range(topology.uplinks)):
            assert (
                directions_between(topology, source, to, plane, uplink)
                == way(topology, source, to, plane, uplink)[1:-1]
            )
