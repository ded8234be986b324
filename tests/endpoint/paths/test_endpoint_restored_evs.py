# SPDX-License-Identifier: BSD-2-Clause
"""What a restored EV is: in use, counted as usable, and free of what condemned it before (behaviour.md, Paths)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import chosen_evs, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import CARRIES_DATA, EvState

G, S, B = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD


def _path_set(least: int = 1) -> PathSet:
    return PathSet(paths(2, 4), PathConfig(ev_min_active=least), Random(3))


def _select(chosen: PathSet, count: int) -> set[int]:
    return set(chosen_evs(chosen, count))


@pytest.mark.parametrize("marked", [False, True])
def test_restored_evs_count_towards_ev_min_active(marked: bool) -> None:
    """Five of eight at least: three may go, two come back, two may go again, and not a third."""
    chosen = _path_set(5)
    for index in (0, 1, 2):
        chosen.on_loss(index, index)
    for index in (0, 1):
        chosen.on_probed(index, marked=marked)
    assert sum(CARRIES_DATA[state] for state in chosen.state) == 7
    _select(chosen, 64)  # all of them are GOOD by now
    for index, state in ((4, B), (5, B), (6, S), (7, S)):
        chosen.on_loss(index, 10 + index)
        assert chosen.state[index] == state
    assert sum(CARRIES_DATA[state] for state in chosen.state) == 5


def test_a_loss_that_condemned_it_long_ago_does_not_excuse_it_now() -> None:
    """ASSUMED_BAD to GOOD when "the loss that condemned it proves spurious": this time it was the peer's m=2."""
    chosen = _path_set()
    chosen.on_loss(3, 77)
    chosen.on_probed(3, marked=False)
    chosen.on_mark(3, 2)
    chosen.on_spurious(3, 77)
    assert chosen.state[3] == B


def test_a_spurious_loss_of_long_ago_does_not_excuse_a_later_one() -> None:
    chosen = _path_set()
    chosen.on_loss(3, 77)
    chosen.on_probed(3, marked=False)
    chosen.on_loss(3, 78)
    chosen.on_spurious(3, 77)
    assert chosen.state[3] == B
    chosen.on_spurious(3, 78)
    assert chosen.state[3] == G
