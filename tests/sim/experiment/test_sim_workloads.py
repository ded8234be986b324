# SPDX-License-Identifier: BSD-2-Clause
"""Workloads as flows: what each pattern sends, and that collectives wait for what they need."""

from __future__ import annotations

import numpy as np
import pytest

from mrc.errors import CallerError
from mrc.sim.cluster import Topology
from mrc.sim.experiment.placement import Placement
from mrc.sim.experiment.workloads import collectives, patterns
from mrc.sim.experiment.workloads.flows import Job, JobFlows, joined, repeated
from mrc.sim.experiment.workloads.matrix import Matrix


def job(ranks: int, seed: int = 1) -> Job:
    return Job(ranks, np.arange(ranks), 4, np.random.default_rng(seed))


# ------------------------------------------------------------------ patterns


@pytest.mark.parametrize("ranks", [2, 3, 4, 17, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_a_permutation_has_one_of_each_and_none_to_itself(ranks: int, seed: int) -> None:
    flows = patterns.permutation(job(ranks, seed), 10, None)
    assert sorted(flows.source) == sorted(flows.destination) == list(range(ranks))
    assert (flows.source != flows.destination).all()


def test_an_all_to_all_has_each_pair_once_and_few_in_flight() -> None:
    flows = patterns.all_to_all(job(5), 10, 2)
    pairs = set(zip(flows.source.tolist(), flows.destination.tolist(), strict=True))
    assert pairs == {(a, b) for a in range(5) for b in range(5) if a != b}
    assert len(flows) == 20
    for row, before in zip(flows.waits.tolist(), flows.waits_for.tolist(), strict=True):
        assert flows.source[row] == flows.source[before]
        assert row - before == 2
    assert len(flows.waits) == 5 * 2


# ------------------------------------------------------------------ all-reduce


def contributions(flows: JobFlows, ranks: int) -> list[set[int]]:
    """Run the writes in an order that their waits allow; what a rank has after them of each rank's contribution.

    A write carries all that its source had received when it could start, which is what an all-reduce passes on.
    """
    waits: dict[int, list[int]] = {}
    for row, before in zip(flows.waits.tolist(), flows.waits_for.tolist(), strict=True):
        waits.setdefault(row, []).append(before)
    carries: dict[int, set[int]] = {}
    for row in range(len(flows)):
        source = int(flows.source[row])
        carries[row] = {source}.union(*(carries[before] for before in waits.get(row, [])))
        assert all(int(flows.destination[before]) == source for before in waits.get(row, []))
        assert all(before < row for before in waits.get(row, []))
    known = [{rank} for rank in range(ranks)]
    for row, contributed in carries.items():
        known[int(flows.destination[row])] |= contributed
    return known


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 13, 16, 31])
@pytest.mark.parametrize("algorithm", ["ring", "halving", "doubling"])
def test_every_rank_has_every_contribution(algorithm: str, ranks: int) -> None:
    size = 4096
    flows = {
        "ring": lambda: collectives.ring(job(ranks), size, 0),
        "halving": lambda: collectives.halving_doubling(job(ranks), size),
        "doubling": lambda: collectives.doubling(job(ranks), size),
    }[algorithm]()
    assert all(each == set(range(ranks)) for each in contributions(flows, ranks))
    assert (flows.bytes > 0).all()


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_rings_and_halving_send_what_the_formula_says(ranks: int) -> None:
    """2 (N - 1) / N of the array from each rank."""
    size = 1 << 16
    for flows in (collectives.ring(job(ranks), size, 0), collectives.halving_doubling(job(ranks), size)):
        sent = np.bincount(flows.source, flows.bytes)
        assert (sent == 2 * (ranks - 1) * size // ranks).all()


@pytest.mark.parametrize("ranks", [3, 5, 8])
def test_chunks_of_a_ring_add_up_to_its_parts(ranks: int) -> None:
    whole, cut = collectives.ring(job(ranks), 100_001, 0), collectives.ring(job(ranks), 100_001, 7_000)
    chunks = len(cut) // len(whole)
    assert (cut.bytes.reshape(-1, chunks).sum(axis=1) == whole.bytes).all()
    assert cut.bytes.max() <= 7_000
    assert (cut.source[cut.waits] == cut.destination[cut.waits_for]).all()


def depth(flows: JobFlows) -> int:
    """Writes on the longest chain."""
    longest = np.ones(len(flows), np.int64)
    for row, before in sorted(zip(flows.waits.tolist(), flows.waits_for.tolist(), strict=True)):
        longest[row] = max(longest[row], longest[before] + 1)
    return int(longest.max())


def test_steps_are_as_many_as_the_algorithms_have() -> None:
    assert depth(collectives.ring(job(8), 1 << 16, 0)) == 2 * 7
    assert depth(collectives.halving_doubling(job(8), 1 << 16)) == 2 * 3
    assert depth(collectives.halving_doubling(job(9), 1 << 16)) == 2 * 3 + 2
    assert depth(collectives.doubling(job(8), 1 << 16)) == 3


@pytest.mark.parametrize("ranks", [4, 6])
def test_repeated_all_reduces_come_one_after_the_other(ranks: int) -> None:
    once = collectives.halving_doubling(job(ranks), 4096)
    thrice = repeated(once, 3)
    assert len(thrice) == 3 * len(once)
    assert depth(thrice) == 3 * depth(once)


def test_too_small_an_array_is_refused() -> None:
    with pytest.raises(CallerError, match="at least 1 for each of the 8 ranks"):
        collectives.ring(job(8), 7, 0)


# ------------------------------------------------------------------ placement


def test_placement_is_packed_spread_or_random() -> None:
    topology = Topology(hosts=16, hosts_per_leaf=4, spines=2)

    def placement() -> Placement:
        return Placement(topology, np.random.default_rng(1))

    assert placement().take(5, "packed").tolist() == [0, 1, 2, 3, 4]
    assert placement().take(6, "spread").tolist() == [0, 4, 8, 12, 1, 5]
    drawn = placement().take(16, "random").tolist()
    assert sorted(drawn) == list(range(16))
    assert drawn != sorted(drawn)


def test_a_host_has_one_job() -> None:
    placement = Placement(Topology(hosts=16, hosts_per_leaf=4, spines=2), np.random.default_rng(1))
    first, second = placement.take(6, "spread"), placement.take(10, "packed")
    assert set(first).isdisjoint(second)
    with pytest.raises(CallerError, match="1 hosts are wanted, 0 of 16 are free"):
        placement.take(1, "packed")


def test_joined_jobs_keep_their_waits() -> None:
    ring = collectives.ring(job(4), 4096, 0)
    flows = joined([(ring, np.arange(4), 0), (ring, np.arange(4, 8), 500)]).checked(8)
    assert flows.start_ns.tolist() == [0] * 24 + [500] * 24
    second = [flows.after[flows.after_first[row] : flows.after_first[row + 1]].tolist() for row in range(24, 48)]
    assert second[:4] == [[]] * 4
    assert second[4:] == [[24 + int(before)] for before in ring.waits_for]


# ------------------------------------------------------------------ connection matrices of htsim

PAIRS = """\
Nodes 4
Connections 3
Triggers 1
0->1 id 1 start 0 size 2000 send_done_trigger 1
2->1 id 2 start 5000000 size 3000 recv_done_trigger 1
1->3 id 3 trigger 1 size 4000 prio 5
trigger id 1 barrier count 2
"""


def test_a_connection_matrix_is_read() -> None:
    flows = Matrix("pairs.cm", PAIRS).flows()
    assert flows.source.tolist() == [0, 2, 1]
    assert flows.destination.tolist() == [1, 1, 3]
    assert flows.bytes.tolist() == [2000, 3000, 4000]
    assert flows.start_ns.tolist() == [0, 5000, 0]
    assert (flows.waits.tolist(), flows.waits_for.tolist()) == ([2, 2], [0, 1])


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("count 2", "count 3", "pairs.cm:7: the barrier counts 3, but 2 flows fire it"),
        ("barrier count 2", "oneshot", "pairs.cm:7: 2 flows fire this trigger: only a barrier may have several"),
        ("trigger 1 size", "trigger 2 size", "pairs.cm:6: no trigger 2 in this file"),
        ("Connections 3", "Connections 4", "pairs.cm:1: the header says Connections 4, there are 3"),
        ("2->1", "2->2", "pairs.cm:5: a flow leads from one of 4 nodes to another"),
        ("2->1", "2->9", "pairs.cm:5: a flow leads from one of 4 nodes to another"),
        ("size 3000", "size much", "pairs.cm:5: size needs a number, got 'much'"),
        ("size 3000", "", "pairs.cm:5: a flow needs a size of at least 1 byte"),
        ("start 0", "", "pairs.cm:4: a flow needs either a start or a trigger"),
        ("prio 5", "colour 5", "pairs.cm:6: 'colour' is not one of"),
        ("Nodes 4\n", "", "pairs.cm:1: lacks the header Nodes"),
        ("2->1", "2=>1", "pairs.cm:5: '2=>1' is neither a flow"),
    ],
)
def test_a_wrong_matrix_says_which_line(was: str, becomes: str, says: str) -> None:
    with pytest.raises(CallerError) as caught:
        Matrix("pairs.cm", PAIRS.replace(was, becomes)).flows()
    assert str(caught.value).startswith(says)
