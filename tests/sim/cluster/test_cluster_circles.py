# SPDX-License-Identifier: BSD-2-Clause
"""Flows that wait for each other are refused before anything is simulated; what waits for a failed one is left out."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_setups import FIXED, PLAIN

from mrc.errors import CallerError
from mrc.sim.cluster import Action, Failures, Flows, Setup, Target, Topology, run
from mrc.sim.cluster.circles import check_no_circle

SHAPE = Topology(8, planes=1, hosts_per_leaf=2, spines=1)


def waiting(pairs: list[tuple[int, int]], count: int = 4) -> Flows:
    """Flow a starts when flow b has arrived, for each (a, b)."""
    rows = [[before for flow, before in pairs if flow == row] for row in range(count)]
    first = np.cumsum([0, *map(len, rows)])
    hosts = np.arange(count)
    after = np.array([before for row in rows for before in row], np.int64)
    return Flows(hosts, (hosts + 2) % 8, np.full(count, 100), np.zeros(count, int), first, after)


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([(0, 0)], "0 after 0"),
        ([(0, 1), (1, 0)], "after 1 after 0|after 0 after 1"),
        (
            [(0, 1), (1, 2), (2, 3), (3, 1)],
            "1 after 2 after 3 after 1|2 after 3 after 1 after 2|3 after 1 after 2 after 3",
        ),
        ([(3, 2), (2, 3), (1, 0)], "2 after 3 after 2|3 after 2 after 3"),
    ],
)
def test_a_circle_is_refused(pairs: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(CallerError, match=f"wait for each other in a circle.*({says})"):
        run(Setup(SHAPE, waiting(pairs), PLAIN, PLAIN, policies=FIXED))


@pytest.mark.parametrize(
    "pairs", [[], [(1, 0), (2, 1), (3, 2)], [(0, 1), (1, 2), (2, 3)], [(0, 3), (1, 3), (2, 0), (2, 1)]]
)
def test_what_is_no_circle_runs(pairs: list[tuple[int, int]]) -> None:
    outcome = run(Setup(SHAPE, waiting(pairs), PLAIN, PLAIN, policies=FIXED))
    assert (outcome.flows.completed > 0).all()
    for flow, before in pairs:
        assert outcome.flows.started[flow] >= outcome.flows.arrived[before]


def test_a_long_circle_is_named_in_part() -> None:
    count = 100_000
    rows = np.arange(count)
    with pytest.raises(CallerError, match=r"\(99,993 more\)"):
        check_no_circle(count, rows, (rows + 1) % count)


def test_what_waits_for_a_write_that_failed_never_begins() -> None:
    """The run ends when nothing is left to happen, with a time series and without."""
    # The only cable from the leaf of hosts 0 and 1.
    cable = SHAPE.leaf_cable(0, 0, 0)
    failures = Failures(*(np.array([each]) for each in (0, int(Target.UPWARD), cable, int(Action.DOWN))))
    for sample_ns in (0, 1_000_000):
        setup = Setup(
            SHAPE, waiting([(1, 0), (2, 1)]), PLAIN, PLAIN, failures=failures, policies=FIXED, sample_ns=sample_ns,
            end_ns=10**15,
        )  # fmt: skip
        outcome = run(setup)
        assert outcome.flows.status[0] > 0
        assert outcome.flows.started.tolist() == [0, -1, -1, 0]
        assert outcome.flows.completed[3] > 0
        assert outcome.end_ns < 10**15
