# SPDX-License-Identifier: BSD-2-Clause
"""What stays and what changes when a QP's EVs are replaced (api.md, EV operations)."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hand_peer import chosen_evs, control_evs, paths
from within import SEEN_FROM_WITHIN

from mrc.endpoint.config import PathConfig, PeerNodeConfig
from mrc.endpoint.paths.ev_events import EvObservers
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.endpoint.paths.states import EvState
from mrc.errors import CallerError
from mrc.wire.frames import Frames

FREE = PathConfig(ev_min_active=1)
ALL = paths(2, 8)  # eight a plane
G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED


def _node() -> ReverseEvs:
    return ReverseEvs(PeerNodeConfig(), len(ALL))


def _of(numbers: list[int], reverse: ReverseEvs | None = None, frames: Frames | None = None) -> PathSet:
    return PathSet(
        [ALL[number] for number in numbers],
        FREE,
        Random(3),
        reverse=reverse or _node(),
        numbers=numbers,
        frames=frames,
    )


def _replace(chosen: PathSet, numbers: list[int], config: PathConfig = FREE) -> None:
    chosen.replace([ALL[number] for number in numbers], numbers, config)


@pytest.mark.parametrize("numbers", [[], [1, 1], [0, 8, 9, 8]])
def test_an_empty_or_ambiguous_profile_is_refused_and_changes_nothing(numbers: list[int]) -> None:
    chosen = _of([0, 1, 8, 9])
    with pytest.raises(CallerError, match="each once"):
        _replace(chosen, numbers)
    assert chosen.current() == [0, 1, 2, 3]


def test_evs_that_stay_keep_index_and_state() -> None:
    chosen = _of([0, 1, 8, 9])
    chosen.on_loss(0, 1)
    chosen.on_mark(1, 1)
    assert chosen.has_newly_bad()
    _replace(chosen, [0, 1, 8, 9, 10])
    assert [chosen.index(ALL[number].ev) for number in (0, 1, 8, 9, 10)] == [0, 1, 2, 3, 4]
    assert chosen.state.tolist() == [B, S, G, G, G]
    assert [chosen.newly_bad[place] for place in range(chosen.newly_bad_count)] == [0]


def test_nothing_is_bad_in_the_beginning() -> None:
    chosen = _of([0, 1, 8, 9])
    assert not chosen.has_newly_bad()
    _replace(chosen, [0, 2, 8])
    assert not chosen.has_newly_bad()


def test_an_ev_in_skip_stays_in_use() -> None:
    """SKIP is passed over once, then GOOD: also where the profile changed in between."""
    chosen = _of([0, 1, 8, 9])
    chosen.on_mark(1, 1)
    _replace(chosen, [0, 1, 8])
    assert set(chosen_evs(chosen, 32)) == {0, 1, 2}


def test_the_number_of_active_evs_is_that_of_the_new_settings() -> None:
    chosen = _of([*range(8), *range(8, 16)])
    _replace(chosen, list(range(16)), PathConfig(active_count=4, ev_min_active=1))
    assert len(set(chosen_evs(chosen, 64))) == 4


def test_a_port_that_is_down_stays_so() -> None:
    chosen = _of([0, 1, 8, 9])
    chosen.set_port(1, up=False)
    _replace(chosen, [0, 8, 9])
    assert [chosen.port_up(port) for port in (0, 1, 2)] == [True, False, False]
    assert set(chosen_evs(chosen, 32)) == {0}
    chosen.set_port(1, up=True)
    assert chosen.port_up(1)


def test_the_trace_is_told_of_further_evs() -> None:
    class Told:
        evs: tuple[int, ...] = ()

        def evs_added(self, evs: list[int]) -> None:
            self.evs = (*self.evs, *evs)

    told: Any = Told()
    chosen = PathSet(ALL[:2], FREE, Random(3), observers=EvObservers(trace=told), reverse=_node(), numbers=[0, 1])
    _replace(chosen, [1, 5, 3])
    assert told.evs == (ALL[5].ev, ALL[3].ev)


@SEEN_FROM_WITHIN
def test_frames_are_shared_until_the_profile_has_an_ev_of_its_own() -> None:
    frames = Frames()
    first = [ALL[0], ALL[8]]
    frames.extend(
        [path.template for path in first], [path.port for path in first], [path.destination for path in first]
    )
    before = bytes(frames.templates)
    chosen = _of([0, 8], frames=frames)
    assert chosen.frames is frames
    assert bytes(frames.templates) == before
    _replace(chosen, [0, 9])
    assert bytes(frames.templates) == before
    assert bytes(chosen.frames.templates) == before + ALL[9].template
    assert list(chosen.frames.ports) == [0, 1, 1]
    _replace(chosen, [0, 10])
    assert bytes(chosen.frames.templates) == before + ALL[9].template + ALL[10].template


def test_an_ev_carries_what_belongs_to_no_qp_while_some_profile_has_it_and_none_denies_it() -> None:
    """The node's own packets take EVs of its QPs: an EV that two of them have stays when one goes."""
    reverse = _node()
    one, other = _of([0, 8], reverse), _of([0, 9], reverse)
    assert [reverse.may_carry(number) for number in (0, 8, 9, 10)] == [True, True, True, False]
    one.release()
    one.release()
    assert [reverse.may_carry(number) for number in (0, 8, 9)] == [True, False, True]
    other.deny(ALL[0].ev)
    assert not reverse.may_carry(0)
    other.allow(ALL[0].ev)
    assert reverse.may_carry(0)
    other.deny(ALL[0].ev)
    _replace(other, [9])
    assert not reverse.may_carry(0)
    again = _of([0], reverse)
    assert reverse.may_carry(0)
    again.release()
    assert not reverse.may_carry(0)


def test_with_every_ev_denied_no_control_packet_leaves_until_one_is_allowed() -> None:
    """behaviour.md, EV states: any EV that the controller denied is DENIED, "and back only by the controller"."""
    chosen = _of([0, 8])
    for number in (0, 8):
        chosen.deny(ALL[number].ev)
    assert chosen.silent
    assert control_evs(chosen, 8, 0) == []
    chosen.allow(ALL[8].ev)
    assert set(control_evs(chosen, 8, 0)) == {1}


def test_when_everything_was_lost_every_ev_is_tried() -> None:
    """behaviour.md, Reverse EVs: those not known to be good are all alike when there is no other."""
    chosen = _of([*range(4), *range(8, 12)])
    for index in range(8):
        chosen.on_loss(index, index)
    picks = control_evs(chosen, 64, 0)
    assert set(picks) == set(range(8))
    assert all(one // 4 != other // 4 for one, other in pairwise(picks))
