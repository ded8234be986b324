# SPDX-License-Identifier: BSD-2-Clause
"""How long an EV stays in SKIP where a least time is configured (behaviour.md, EV states)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import MICROSECOND, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState

LEAST = 100 * MICROSECOND


def test_an_ev_may_stay_in_skip_for_a_least_time() -> None:
    """behaviour.md, EV states: "PathConfig.skip_at_least_ns is the least time that it lasts". MRC-PATH-32.

    Four EVs; the rotation passes the marked one at once, many times, and takes it only when the time is over.
    """
    chosen = PathSet(paths(1, 4), PathConfig(skip_at_least_ns=LEAST), Random(3))
    chosen.on_mark(2, 1)
    for now in (0, 1, LEAST // 2, LEAST - 1):
        assert 2 not in {chosen.select(now) for _ in range(8)}
        assert chosen.state[2] == EvState.SKIP
    assert 2 in {chosen.select(LEAST + 1) for _ in range(12)}
    assert chosen.state[2] == EvState.GOOD
    # Each time in SKIP has its own.
    chosen.on_mark(2, 1)
    assert 2 not in {chosen.select(LEAST + 2) for _ in range(8)}
    assert 2 in {chosen.select(2 * LEAST + 2) for _ in range(12)}


def test_a_least_time_stops_nobody_where_all_evs_are_in_skip() -> None:
    """behaviour.md, EV states: "When a whole rotation finds no GOOD EV, the one just reset from SKIP is used"."""
    chosen = PathSet(paths(2, 2), PathConfig(skip_at_least_ns=LEAST), Random(3))
    for index in range(4):
        chosen.on_mark(index, 1)
    assert chosen.select(0) in range(4)
    assert sorted(chosen.state.tolist()).count(EvState.SKIP) == 3


@pytest.mark.parametrize("least", [0, LEAST])
def test_a_loss_in_skip_needs_no_time(least: int) -> None:
    """behaviour.md, EV states: a packet lost untrimmed takes an EV from SKIP to ASSUMED_BAD."""
    chosen = PathSet(paths(1, 4), PathConfig(skip_at_least_ns=least), Random(3))
    chosen.on_mark(1, 1)
    chosen.on_loss(1, 7)
    assert chosen.state[1] == EvState.ASSUMED_BAD
