# SPDX-License-Identifier: BSD-2-Clause
"""Which EV a packet gets when one is to be avoided or a port has no room (behaviour.md, Paths)."""

from __future__ import annotations

from random import Random

from hand_peer import chosen_evs, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.states import EvState

LONG = 1_000_000_000
FREE = PathConfig(ev_min_active=1)


def _picks(chosen: PathSet, avoid: int, count: int = 64) -> set[int]:
    return {chosen.select(0, avoid) for _ in range(count)}


def test_beside_a_full_port_a_retransmission_leaves_its_ev_too() -> None:
    """behaviour.md, Requestor: "Each retransmission has a fresh EV drawn at send time"."""
    chosen = PathSet(paths(2, 4), FREE, Random(3), full_ports=PortSet([1]))
    assert _picks(chosen, 2) == {0, 1, 3}


def test_beside_a_full_port_an_ev_in_skip_is_passed_over() -> None:
    """behaviour.md, Rotation: "The EV is picked at send time among GOOD EVs whose port is up and has room"."""
    for seed in range(8):
        chosen = PathSet(paths(2, 4), FREE, Random(seed), full_ports=PortSet([1]))
        chosen.on_mark(2, 1)
        picks = []
        while chosen.state[2] == EvState.SKIP:
            picks.append(chosen.select(0))
        assert 2 not in picks
        assert len(picks) <= 8


def test_a_retransmission_takes_an_ev_in_skip_before_the_one_it_was_lost_on() -> None:
    """Where the least time in SKIP keeps all others from a turn; any of them may be the one."""
    for planes, evs in ((1, 4), (2, 2)):
        chosen = PathSet(paths(planes, evs), PathConfig(ev_min_active=1, skip_at_least_ns=LONG), Random(3))
        for index in (1, 2, 3):
            chosen.on_mark(index, 1)
        assert _picks(chosen, 0) == {1, 2, 3}


def test_an_ev_in_skip_of_a_full_port_is_none_of_them() -> None:
    for seed in range(8):
        for full, avoid, left in ((1, 0, {1}), (0, 3, {2})):
            config = PathConfig(ev_min_active=1, skip_at_least_ns=LONG)
            chosen = PathSet(paths(2, 2), config, Random(seed), full_ports=PortSet([full]))
            for index in {0, 1, 2, 3} - {avoid}:
                chosen.on_mark(index, 1)
            assert _picks(chosen, avoid, 16) == left


def test_the_only_ev_is_taken_though_it_is_to_be_avoided() -> None:
    for seed in range(8):
        alone = PathSet(paths(1, 1), FREE, Random(seed))
        assert _picks(alone, 0, 8) == {0}
        beside = PathSet(paths(2, 1), FREE, Random(seed), full_ports=PortSet([1]))
        assert _picks(beside, 0, 8) == {0}
        other_way = PathSet(paths(2, 1), FREE, Random(seed), full_ports=PortSet([0]))
        assert _picks(other_way, 1, 8) == {1}


def test_with_every_port_full_there_is_no_ev() -> None:
    chosen = PathSet(paths(2, 2), FREE, Random(3), full_ports=PortSet([0, 1]))
    assert not chosen.usable()
    assert _picks(chosen, 0, 8) == {-1}


def test_where_all_are_in_skip_the_one_just_reset_is_used() -> None:
    """behaviour.md, EV states: "When a whole rotation finds no GOOD EV, the one just reset from SKIP is used"."""
    chosen = PathSet(paths(1, 1), PathConfig(ev_min_active=1, skip_at_least_ns=LONG), Random(3))
    chosen.on_mark(0, 1)
    assert chosen_evs(chosen, 1) == [0]
    assert chosen.state[0] == EvState.GOOD


def test_any_reserve_ev_of_the_plane_may_be_the_heir() -> None:
    """behaviour.md, Reserve: "A bad EV is replaced by a reserve EV of the same plane"."""
    heirs = set()
    for seed in range(30):
        chosen = PathSet(paths(1, 4), PathConfig(active_count=1, ev_min_active=1), Random(seed))
        (active,) = set(chosen_evs(chosen, 8))
        chosen.on_loss(active, 1)
        (heir,) = set(chosen_evs(chosen, 8))
        heirs.add((active, heir))
    assert len(heirs) > 8


def test_an_ev_that_went_to_the_reserve_takes_over_again() -> None:
    """behaviour.md, Probing: "A restored EV rejoins the active set if its plane is short there, else the reserve"."""
    chosen = PathSet(paths(1, 2), PathConfig(active_count=1, ev_min_active=1), Random(3))
    (first,) = set(chosen_evs(chosen, 8))
    chosen.on_loss(first, 1)
    chosen.on_probed(first, marked=False)
    assert set(chosen_evs(chosen, 8)) == {1 - first}
    chosen.on_loss(1 - first, 2)
    assert set(chosen_evs(chosen, 8)) == {first}


def test_an_ev_that_comes_back_takes_no_turn_of_others() -> None:
    """Of the others each has one turn in the pass it comes back in, and all have one in the next."""
    for seed in range(6):
        for before in range(7):
            for victim in range(8):
                chosen = PathSet(paths(1, 8), FREE, Random(seed))
                chosen.on_loss(victim, 1)
                had = chosen_evs(chosen, before)
                chosen.on_probed(victim, marked=False)
                had += chosen_evs(chosen, 25 - before)
                others = [index for index in had if index != victim]
                for at in (0, 7, 14):
                    assert sorted({*others[at : at + 7], victim}) == list(range(8))
                assert had.count(victim) >= 2
