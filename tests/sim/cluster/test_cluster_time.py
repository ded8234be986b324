# SPDX-License-Identifier: BSD-2-Clause
"""A QP that is used again after it was idle: nothing of what it did before decides when it goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cluster_setups import FIXED, NSCC, PLAIN

from mrc.sim.cluster import Flows, Policies, Setup, Topology, run

SHAPE = Topology(16, planes=1, hosts_per_leaf=8, spines=8)
MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000


def setup(starts: list[int], size: int = 4096, policies: Policies = NSCC, back: bool = False) -> Setup:
    """Writes from host 0 to host 8, every second one back where that is wanted."""
    count = len(starts)
    near = np.array([8 * (back and row % 2) for row in range(count)])
    work = Flows(near, 8 - near, np.full(count, size), np.array(starts))
    return Setup(SHAPE, work, PLAIN, PLAIN, policies=policies, end_ns=100 * SECOND)


@pytest.mark.parametrize("policies", [NSCC, FIXED], ids=["nscc", "fixed"])
@pytest.mark.parametrize("back", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize(
    "gap", [100 * MICROSECOND, 999 * MICROSECOND, MILLISECOND, 5 * MILLISECOND, 20 * MILLISECOND, 3 * SECOND]
)
def test_a_write_after_a_pause_takes_as_long_as_the_one_before(gap: int, back: bool, policies: Policies) -> None:
    """Three and more phases, pauses shorter and longer than the path timer, its first value and the ACK timeout."""
    outcome = run(setup([phase * gap for phase in range(5)], policies=policies, back=back))
    assert outcome.flows.started.tolist() == [phase * gap for phase in range(5)]
    took = outcome.flows.fct_ns
    # Five packets' serialisation apart: which way the ACK goes, and whether it overtakes the SACK.
    assert took.min() > 5_000
    assert np.ptp(took) < 100
    assert outcome.end_ns == 4 * gap + took[4]


@pytest.mark.parametrize(
    "starts", [[0, 0, 0], [0, 1, 2], [0, 100_000, 5_000_000], [7, 3_000_000, 3_000_001, 90_000_000]]
)
@pytest.mark.parametrize("size", [1, 4096, 200_000])
def test_ends_are_after_starts(starts: list[int], size: int) -> None:
    outcome = run(setup(starts, size))
    assert outcome.flows.started.tolist() == starts
    assert (outcome.flows.fct_ns > 4_000).all()
    assert (outcome.flows.arrived > outcome.flows.started).all()


def test_a_long_write_beside_short_ones_is_not_faster_than_its_port() -> None:
    """60 MB over 100 Gbit/s take 4,800 us at least, however often the clock is asked to go back meanwhile."""
    work = Flows(
        np.array([0, 0, 0, 1]), np.array([8, 8, 8, 9]), np.array([4096, 4096, 4096, 60_000_000]),
        np.array([0, 100 * MICROSECOND, 3 * MILLISECOND, 0]),
    )  # fmt: skip
    outcome = run(Setup(SHAPE, work, PLAIN, PLAIN, policies=FIXED))
    assert 4_800 * MICROSECOND < outcome.flows.fct_ns[3] < 5_200 * MICROSECOND
    assert (outcome.flows.fct_ns[:3] < 10 * MICROSECOND).all()


def test_many_pairs_in_phases_end_in_order() -> None:
    """Three permutations over the same pairs, from a quiet fabric each."""
    hosts = np.arange(16)
    starts = [0, 100 * MICROSECOND, 5 * MILLISECOND, 2 * SECOND]
    work = Flows(
        np.tile(hosts, 4), np.tile((hosts + 8) % 16, 4), np.full(64, 4096), np.repeat(np.array(starts), 16)
    )  # fmt: skip
    for shards in (1, 2):
        outcome = run(Setup(SHAPE, work, PLAIN, PLAIN, policies=NSCC, shards=shards, end_ns=3 * SECOND))
        took = outcome.flows.fct_ns.reshape(4, 16)
        assert took.max() < 8 * MICROSECOND
        assert np.ptp(took.max(axis=1)) < 2 * MICROSECOND


def test_the_end_of_a_run_is_when_it_stopped() -> None:
    """At Setup.end_ns where something is left, and with the last completion otherwise."""
    some = setup([0, 50 * MILLISECOND])
    assert run(replace(some, end_ns=10 * MILLISECOND)).end_ns == 10 * MILLISECOND
    whole = run(some)
    assert whole.end_ns == whole.flows.completed.max()
