# SPDX-License-Identifier: BSD-2-Clause
"""Each pass over the EVs has an order of its own: what holds for an EV holds from one pass to the next too."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import chosen_evs, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState


@pytest.mark.parametrize("marked", range(4))
@pytest.mark.parametrize("before", [*range(506, 516), *range(1018, 1028)])
def test_a_mark_near_the_end_of_a_pass_is_passed_over_once_too(before: int, marked: int) -> None:
    """A pass has four turns here, one for each EV."""
    chosen = PathSet(paths(1, 4), PathConfig(), Random(3))
    chosen_evs(chosen, before)
    chosen.on_mark(marked, 1)
    with_one_skipped: list[int] = []
    while chosen.state[marked] == EvState.SKIP:
        with_one_skipped.append(chosen.select(0))
    assert marked not in with_one_skipped
    assert len(with_one_skipped) <= 7  # last of one pass, first of the next
    assert marked in chosen_evs(chosen, 7)


@pytest.mark.parametrize("victim", range(8))
@pytest.mark.parametrize("before", range(8))
def test_an_ev_that_leaves_takes_no_turn_of_others_with_it(before: int, victim: int) -> None:
    """Whether it had its turn in this pass, has it next or last: all others have one, and none has two."""
    chosen = PathSet(paths(1, 8), PathConfig(), Random(5))
    had = chosen_evs(chosen, before)
    chosen.on_loss(victim, 1)
    had += chosen_evs(chosen, 8 - before - (victim not in had))
    assert sorted({*had, victim}) == list(range(8))
    assert len(had) == len(set(had))
