# SPDX-License-Identifier: BSD-2-Clause
"""Which reserve EV takes the place of one that went down (behaviour.md, Paths)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import chosen_evs, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState


def _select(chosen: PathSet, count: int) -> set[int]:
    return set(chosen_evs(chosen, count))


def test_a_reserve_ev_in_skip_is_a_reserve_ev() -> None:
    """A bad EV is replaced by one of the same plane; SKIP is no ground to go without."""
    chosen = PathSet(paths(2, 3), PathConfig(active_count=4, ev_min_active=1), Random(1))
    before = _select(chosen, 512)
    assert len(before) == 4
    (reserve,) = {0, 1, 2} - before
    chosen.on_mark(reserve, 1)
    assert chosen.state[reserve] == EvState.SKIP
    chosen.on_loss(min(before), 1)
    assert _select(chosen, 512) == before - {min(before)} | {reserve}


def test_an_ev_that_is_bad_or_denied_is_no_reserve() -> None:
    chosen = PathSet(paths(2, 4), PathConfig(active_count=4, ev_min_active=1), Random(1))
    before = _select(chosen, 512)
    bad, denied = sorted({0, 1, 2, 3} - before)
    chosen.on_loss(bad, 1)
    chosen.deny(chosen.paths[denied].ev)
    gone = min(before)
    chosen.on_loss(gone, 2)
    assert _select(chosen, 512) == before - {gone}


@pytest.mark.parametrize("active_count", [1, 2, 3])
def test_every_plane_has_an_equal_number_of_active_evs_and_one_at_least(active_count: int) -> None:
    """One a plane for two planes, whether one, two or three are asked for."""
    chosen = PathSet(paths(2, 4), PathConfig(active_count=active_count, ev_min_active=1), Random(1))
    assert sorted(index // 4 for index in _select(chosen, 512)) == [0, 1]
