# SPDX-License-Identifier: BSD-2-Clause
"""Whatever happens to packets, none is lost count of; and the same setup gives the same outcome."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cluster_setups import BUSY, NSCC, PLAIN, busy, flows, incast, permutation, same
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

import mrc
from mrc.sim.cluster import Action, ClusterLink, Conservation, Failures, Setup, SimulationFault, Target, Topology, run

SMALL = Topology(8, planes=2, hosts_per_leaf=2, spines=2)


links = st.builds(
    ClusterLink,
    rate_bps=st.sampled_from([10**10, 10**11]),
    delay_ns=st.sampled_from([0, 1, 500, 20_000]),
    queue_bytes=st.sampled_from([None, 9_000, 40_000]),
    trim_at_bytes=st.sampled_from([None, 0, 20_000]),
    trim_to_bytes=st.sampled_from([None, 100, 256, 5_000]),
    ecn_low_bytes=st.just(10_000),
    ecn_high_bytes=st.sampled_from([10_000, 30_000]),
    loss=st.sampled_from([0.0, 0.0, 0.02]),
)


@st.composite
def failures(draw: st.DrawFn) -> Failures:
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        target = draw(st.sampled_from(list(Target)))
        limit = {Target.SWITCH: SMALL.switches, Target.PLANE: SMALL.planes}.get(target, SMALL.cables)
        action = draw(st.sampled_from(list(Action)))
        rows.append((draw(st.integers(0, 40_000)), int(target), draw(st.integers(0, limit - 1)), int(action), 0.1))
    time, target_of, which, what, value = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    return Failures(*(np.array(column, np.int64) for column in (time, target_of, which, what)), np.array(value, float))


@settings(max_examples=draws(10))
@given(links, links, failures(), st.integers(0, 3), st.sampled_from([30_000, 200_000]))
def test_packets_are_conserved_and_runs_repeat(
    fabric: ClusterLink, host: ClusterLink, what: Failures, seed: int, size: int
) -> None:
    """The sums are checked in each run."""
    setup = Setup(SMALL, permutation(8, size, 3), fabric, host, failures=what, policies=NSCC, seed=seed, end_ns=300_000)
    outcome = run(setup)
    assert outcome.qps.placed_bytes.sum() <= 8 * size
    assert same(outcome, run(setup))
    for row in np.flatnonzero(outcome.flows.completed >= 0):
        assert outcome.flows.started[row] < outcome.flows.arrived[row] <= outcome.flows.completed[row]


def test_all_kinds_of_ends_are_counted() -> None:
    """Without trimming packets are dropped, with it they are trimmed; a lossy link loses some."""
    dropping = replace(BUSY, trim_at_bytes=None, queue_bytes=40_000)
    for link, kind in ((dropping, "dropped"), (BUSY, "trimmed"), (replace(PLAIN, loss=0.05), "lost")):
        topology = Topology(16, planes=2, hosts_per_leaf=4, spines=4)
        host_link = replace(link, ecn_low_bytes=None, ecn_high_bytes=None)
        outcome = run(Setup(topology, incast(16, 100_000), link, host_link, policies=NSCC))
        assert getattr(outcome.conservation, kind) > 10
        assert (outcome.flows.completed > 0).all()
        assert outcome.qps.placed_bytes.tolist() == [100_000] * 15


def test_sums_that_do_not_agree_are_an_error() -> None:
    with pytest.raises(SimulationFault, match="packets were lost count of: 5 sent, 4 accounted for"):
        Conservation(5, 1, 1, 1, 1, 0).check()


def test_other_seeds_give_other_outcomes() -> None:
    setup = busy(SMALL, permutation(8, 100_000, 3))
    assert not same(run(setup), run(replace(setup, seed=1)))


def test_more_packets_than_there_was_room_for() -> None:
    """The pool grows: a host may have a thousand packets under way."""
    far = ClusterLink(delay_ns=300_000)
    outcome = run(Setup(Topology(2, hosts_per_leaf=1, spines=1), flows([0], [1], 6_000 * 256), far, far, policies=NSCC))
    assert outcome.flows.completed[0] > 0


@pytest.mark.skipif(mrc.CORE.kind != "compiled", reason="interpreted there is nothing to compare with")
def test_interpreted_it_is_the_same() -> None:
    script = (
        "from cluster_setups import busy, incast, figures; from mrc.sim.cluster import Topology, run\n"
        "print(figures(run(busy(Topology(8, planes=2, hosts_per_leaf=4, spines=4), incast(8, 50_000)))))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
            env=os.environ | {"MRC_CORE": core},
        ).stdout
        for core in ("python", "compiled")
    ]  # fmt: skip
    assert told[0] == told[1] != ""
