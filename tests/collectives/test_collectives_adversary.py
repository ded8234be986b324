# SPDX-License-Identifier: BSD-2-Clause
"""Operations over links that lose, repeat, reorder and corrupt packets, all from a seed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from collectives_world import PATIENCE_S, World, world
from draws import draws

from mrc.collectives import ReduceOp
from mrc.sim import LinkModel

HOSTILE = LinkModel(
    rate_bps=10**9, delay_ns=5_000, loss=0.02, duplicate=0.02, reorder=0.1, jitter_ns=200_000, corrupt=0.005
)


def mixed(ranks: World, rounds: int) -> str:
    """Operations of every kind one after another, without waiting in between. What is left in memory, as a checksum."""
    size = ranks.size
    random = np.random.default_rng(5)
    kept = hashlib.sha256()
    for number in range(rounds):
        count = int(random.choice([1, 60, 500, 3000, 9001]))
        given = random.uniform(0.5, 1.5, (size, size, count))
        arrays, whole = given.copy(), given.copy()
        passed, outs = np.zeros((size, count)), np.zeros((size, count))
        works = []
        for group in ranks.groups:
            rank, mine = group.rank, arrays[group.rank]
            works += [
                group.send(given[rank, 0], (rank + 1) % size),
                group.all_reduce(mine),
                group.reduce_scatter(outs[rank], mine, ReduceOp.MAX),
                group.broadcast(whole[rank], number % size),
                group.recv(passed[rank], (rank - 1) % size),
                group.barrier(),
            ]
        for work in works:
            work.wait(PATIENCE_S)
        for rank in range(size):
            assert arrays[rank].tobytes() == arrays[0].tobytes()
            np.testing.assert_allclose(arrays[rank], given.sum(axis=0), rtol=1e-14)
            np.testing.assert_array_equal(outs[rank], arrays[0][rank])
            np.testing.assert_array_equal(whole[rank], given[number % size])
            np.testing.assert_array_equal(passed[rank], given[rank - 1, 0])
        kept.update(arrays.tobytes())
    return kept.hexdigest()


@pytest.mark.parametrize("seed", range(1, 1 + draws(1)))
@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_results_are_those_of_a_quiet_network(size: int, seed: int) -> None:
    """The same bits: no order in which packets, or ranks, happen to come changes the order of additions."""
    with world(size) as quiet:
        expected = mixed(quiet, 4)
    with world(size, link=HOSTILE, seed=seed) as ranks:
        assert mixed(ranks, 4) == expected
        lost = sum(egress.counters.lost for egress in ranks.fabric.egresses.values())
        assert lost > 0


def test_a_seed_gives_the_same_run() -> None:
    """The same packets at the same times, but for the addresses of arrays that they carry."""

    def run() -> tuple[str, int]:
        with world(4, link=HOSTILE, seed=9) as ranks:
            sent = hashlib.sha256()
            ranks.fabric.observers.append(lambda now, host, data: sent.update(f"{now} {host} {len(data)} ".encode()))
            mixed(ranks, 2)
            return sent.hexdigest(), ranks.fabric.now

    assert run() == run()


def test_a_fabric_that_is_away_for_minutes_is_waited_for() -> None:
    """Nothing gets through for three minutes, in the middle of an all-reduce: it goes on."""
    with world(3, link=LinkModel(rate_bps=10**8, delay_ns=5_000)) as ranks:
        arrays = [np.full(40_000, 1.0) for _ in range(3)]
        works = [group.all_reduce(arrays[group.rank]) for group in ranks.groups]
        fabric = ranks.fabric
        fabric.run(fabric.now + 2_000_000)
        assert not any(work.done for work in works)
        every = [link.name for link in fabric.shape.fabric_links()]
        fabric.cut(*every)
        fabric.run(fabric.now + 180 * 10**9)
        assert not any(work.done for work in works)
        assert all(work.exception() is None for work in works)
        fabric.heal(*every)
        for work in works:
            work.wait(PATIENCE_S)
        assert all((array == 3.0).all() for array in arrays)
