# SPDX-License-Identifier: BSD-2-Clause
"""A cluster in shards: any number of them, and of threads, gives the same outcome."""

from __future__ import annotations

from dataclasses import replace
from threading import get_ident

import numpy as np
import pytest
from cluster_setups import NSCC, PLAIN, busy, flows, incast, permutation, same
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cluster_conservation import SMALL, failures, links

from mrc import CORE
from mrc.core import COMPILED
from mrc.errors import MrcError
from mrc.sim.cluster import Action, ClusterLink, Failures, Flows, Setup, Target, Topology, run
from mrc.sim.cluster.crew import Crew
from mrc.sim.cluster.packet_pool import LINK, MARKS, TO, WAY, WIDTH, PacketPool
from mrc.sim.cluster.run import Run
from mrc.sim.cluster.sharding import FOREVER_NS, sharding
from mrc.sim.cluster.ways import Ways

COMPILED_HERE = CORE.kind == COMPILED
TWO_TIERS = Topology(32, planes=2, hosts_per_leaf=4, spines=4)
THREE_TIERS = Topology(32, planes=2, hosts_per_leaf=2, spines=2, tiers=3, leaves_per_pod=2, cores_per_spine=3)
TOPOLOGIES = pytest.mark.parametrize("topology", [TWO_TIERS, THREE_TIERS], ids=["two tiers", "three tiers"])


@TOPOLOGIES
@pytest.mark.parametrize("shards", [2, 8] if COMPILED_HERE else [4])
def test_any_number_of_threads_gives_the_same_outcome(topology: Topology, shards: int) -> None:
    """With all that happens: trims, marks, losses, cuts between the shards and repairs, later starts, samples."""
    work = permutation(32, 150_000, 13)
    work = replace(work, start_ns=np.arange(32) % 4 * 3_000)
    cut = topology.leaf_cable(0, 1, 1)
    broken = Failures(
        np.array([5_000, 6_000, 30_000]), np.array([Target.CABLE, Target.PLANE, Target.CABLE]),
        np.array([cut, 1, cut]), np.array([Action.DOWN, Action.LOSS, Action.UP]), np.array([0, 0.02, 0]),
    )  # fmt: skip
    setup = replace(busy(topology, work), failures=broken, sample_ns=7_000, shards=shards)
    simulation = Run(setup)
    assert len(simulation.shards) == shards
    alone = simulation.run()
    assert (alone.flows.completed > 0).all()
    assert alone.conservation.lost
    for threads in (2, 3):
        assert same(alone, run(replace(setup, threads=threads)))


@settings(max_examples=25 if COMPILED_HERE else 8)
@given(links, links, failures(), st.integers(0, 3), st.sampled_from([30_000, 200_000]), st.integers(2, 4))
def test_packets_are_conserved_between_shards(
    fabric: ClusterLink, host: ClusterLink, what: Failures, seed: int, size: int, shards: int
) -> None:
    """The sums are checked in each run."""
    setup = Setup(SMALL, permutation(8, size, 3), fabric, host, failures=what, policies=NSCC, seed=seed, end_ns=300_000)
    outcome = run(replace(setup, shards=shards))
    assert outcome.qps.placed_bytes.sum() <= 8 * size
    assert same(outcome, run(replace(setup, shards=shards, threads=2)))


@TOPOLOGIES
def test_where_no_two_packets_meet_in_a_nanosecond_the_number_of_shards_changes_nothing(topology: Topology) -> None:
    setup = Setup(topology, flows([0, 9, 30], [31, 17, 2], 300_000), PLAIN, PLAIN, policies=NSCC)
    one = run(replace(setup, shards=1))
    for shards in (2, 4, 8):
        outcome = run(replace(setup, shards=shards))
        assert outcome.flows.fct_ns.tolist() == one.flows.fct_ns.tolist()
        assert outcome.flows.arrived.tolist() == one.flows.arrived.tolist()


@pytest.mark.parametrize("seed", range(4) if COMPILED_HERE else [0])
def test_under_load_the_number_of_shards_changes_nothing(seed: int) -> None:
    """Hosts that begin together, with hundreds of packets in one nanosecond: each is served alike, or trimmed."""
    topology = Topology(64, planes=2, hosts_per_leaf=8, spines=8)
    for work in (permutation(64, 80_000, 21), incast(33, 40_000)):
        one = run(replace(busy(topology, work, seed=seed), shards=1))
        assert one.links.largest_queue.max() > 10_000
        for shards in (2, 8):
            outcome = run(replace(busy(topology, work, seed=seed), shards=shards))
            # Of all other columns the last window, in which the last flow ends, is whole.
            for name, column in outcome.columns()["flows"].items():
                assert np.array_equal(column, one.columns()["flows"][name]), name


def test_flows_that_wait_for_each_other() -> None:
    """A ring begins where it has arrived: each shard by itself. One that waits for another shard's makes them one."""
    hosts = np.arange(32)
    ring = Flows(
        hosts, (hosts + 1) % 32, np.full(32, 50_000), np.zeros(32, int), after_first=np.maximum(np.arange(33) - 1, 0),
        after=np.arange(31),
    )  # fmt: skip
    setup = Setup(TWO_TIERS, ring, PLAIN, PLAIN, policies=NSCC, shards=4)
    assert len(Run(setup).shards) == 4
    outcome, one = run(replace(setup, threads=2)), run(replace(setup, shards=1))
    assert outcome.flows.started.tolist() == [0, *outcome.flows.arrived[:-1].tolist()]
    assert outcome.flows.arrived.tolist() == one.flows.arrived.tolist()
    barrier = replace(ring, source=hosts[::-1].copy(), destination=(hosts[::-1] + 1) % 32)
    assert len(Run(replace(setup, flows=barrier)).shards) == 1


def test_several_flows_of_one_pair_that_overlap() -> None:
    """The receiver's shard learns of a flow when the window is over, and counts each when it has arrived."""
    work = Flows(np.zeros(6, int), np.full(6, 31), np.full(6, 40_000), np.array([0, 100, 1_000, 5_000, 80_000, 80_001]))
    setup = Setup(TWO_TIERS, work, PLAIN, PLAIN, policies=NSCC, shards=4)
    outcome, one = run(replace(setup, threads=2)), run(replace(setup, shards=1))
    assert outcome.flows.arrived.tolist() == one.flows.arrived.tolist()
    assert (np.diff(outcome.flows.arrived) > 0).all()


# ---------------------------------------------------------------------- how a cluster is divided


@TOPOLOGIES
@pytest.mark.parametrize("shards", [2, 3, 8])
def test_a_packet_changes_shards_once_at_most(topology: Topology, shards: int) -> None:
    """On a direction that leads up to where shards meet; all before it is the source's, all behind it is the
    destination's."""
    divided = sharding(Setup(topology, permutation(32, 1, 1), shards=shards), permutation(32, 1, 1))
    assert divided.count == -(-32 // divided.hosts_per_shard)
    pool = PacketPool(1)
    ways, packet = Ways(topology, pool), pool.take()
    for source, to in ((0, 31), (31, 0), (5, 18), (0, 1), (0, 2), (3, 4)):
        for plane in range(topology.planes):
            for uplink in range(topology.uplinks):
                at = packet * WIDTH
                pool.cells[at + WAY], pool.cells[at + TO] = plane << 16 | uplink, to
                pool.cells[at + MARKS], pool.cells[at + LINK] = 0, ways.first(source, plane)
                shard = divided.of_host(source)
                while True:
                    direction = pool.cells[at + LINK]
                    assert divided.of_cable(direction >> 1) == shard
                    if direction >= divided.first_between and not direction & 1:
                        shard = divided.of_host(to)
                    following = ways.next(packet)
                    if following < 0:
                        break
                    pool.cells[at + LINK] = following
                assert shard == divided.of_host(to)


def test_small_clusters_and_short_cables_are_one_shard() -> None:
    work = permutation(256, 1, 1)
    large = Setup(Topology(512, hosts_per_leaf=16), work)
    assert sharding(large, work).count == 8
    assert sharding(replace(large, topology=Topology(256, hosts_per_leaf=16)), work).count == 1
    short = replace(large, fabric_link=ClusterLink(800 * 10**9, 5))
    assert sharding(short, work).count == 1
    assert sharding(short, work).window_ns == FOREVER_NS
    # The least packet has its outer header and the framing: 78 bytes at 100 Gbit/s, and 500 ns of cable.
    assert sharding(large, work).window_ns == 506
    # Pods stay whole.
    pods = Topology(256, hosts_per_leaf=16, spines=2, tiers=3, leaves_per_pod=8, cores_per_spine=2)
    assert sharding(replace(large, topology=pods, shards=64), work).count == 2


# ---------------------------------------------------------------------- threads


def test_a_crew_does_each_once_and_raises_what_any_raised() -> None:
    setup = Setup(TWO_TIERS, permutation(32, 1, 1), policies=NSCC, shards=8)
    shards = Run(setup).shards
    done, by = [], set()

    def act(shard: object) -> None:
        done.append(shard)
        by.add(get_ident())

    with Crew(3) as crew:
        for _ in range(50):
            crew.each(act, shards)
    assert sorted(done, key=id) == sorted(shards * 50, key=id)
    assert len(by) <= 3

    def fail(shard: object) -> None:
        if shard is shards[5]:
            raise MrcError("a shard failed")

    with Crew(2) as crew, pytest.raises(MrcError, match="a shard failed"):
        crew.each(fail, shards)
