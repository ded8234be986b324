# SPDX-License-Identifier: BSD-2-Clause
"""Which EV a packet gets and what becomes of a bad one (behaviour.md, Paths)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import chosen_evs, control_evs, paths
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import CARRIES_DATA, EvState

G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED
FREE = PathConfig(ev_min_active=1)
STEPS = ["mark", "trim", "always", "loss", "clear", "marked", "spurious", "deny", "allow", "pick"]
STEPS += ["down", "up", "peer_down", "peer_up"]


def path_set(planes: int = 2, spines: int = 4, config: PathConfig = FREE, seed: int = 3) -> PathSet:
    return PathSet(paths(planes, spines), config, Random(seed))


def _select(chosen: PathSet, count: int) -> list[int]:
    return chosen_evs(chosen, count)


def _plane(index: int, spines: int = 4) -> int:
    return index // spines


def test_of_two_in_skip_one_behind_the_other_the_second_waits_for_the_next_packet() -> None:
    """One reset per packet, and it takes the next GOOD: the walk by hand, over an order that is known."""
    first, second, third, fourth = order = _select(path_set(1, 4), 4)
    chosen = path_set(1, 4)
    for index in (first, second):
        chosen.on_mark(index, 1)
    assert _select(chosen, 2) == [third, fourth]
    assert [chosen.state[index] for index in order] == [G, S, G, G]


@pytest.mark.parametrize("in_skip", [255, 256])
def test_with_256_evs_in_skip_each_packet_still_finds_one(in_skip: int) -> None:
    chosen = path_set(2, 128)
    for index in range(in_skip):
        chosen.on_mark(index, 1)
    for already in range(20):
        (pick,) = _select(chosen, 1)
        assert chosen.state[pick] == G
        assert chosen.state.tolist().count(S) in (in_skip - already - 1, in_skip - already)


@pytest.mark.parametrize("seed", range(40))
def test_the_only_good_ev_is_found_wherever_the_rotation_stands(seed: int) -> None:
    """Set GOOD, but take the next GOOD for this packet: the one just reset only when there is no other."""
    chosen = path_set(1, 5, seed=seed)
    _select(chosen, seed)
    for index in range(4):
        chosen.on_mark(index, 1)
    assert _select(chosen, 1) == [4]


def test_a_spurious_loss_does_not_lift_an_always_skip() -> None:
    """Only "the loss that condemned it": here the peer's m=2 did."""
    chosen = path_set()
    chosen.on_mark(1, 2)
    chosen.on_loss(1, 77)
    chosen.on_spurious(1, 77)
    assert chosen.state[1] == B


@pytest.mark.parametrize(("least", "stays"), [(None, 2), (1, 1), (5, 5), (8, 8)])
def test_fewer_than_ev_min_active_never_remain(least: int | None, stays: int) -> None:
    """Of 8 EVs a quarter by default: one that would go bad below it goes to SKIP instead."""
    chosen = path_set(config=PathConfig(ev_min_active=least))
    for index in range(8):
        chosen.on_loss(index, index)
        usable = sum(CARRIES_DATA[state] for state in chosen.state)
        assert usable == max(stays, 7 - index)
    assert chosen.state.tolist().count(S) >= 1
    assert len(_select(chosen, 10)) == 10


def test_the_default_minimum_is_a_quarter_rounded_up_and_at_least_1() -> None:
    for planes, spines, least in ((1, 1, 1), (1, 4, 1), (1, 5, 2), (3, 3, 3)):
        chosen = path_set(planes, spines, PathConfig())
        for index in range(planes * spines):
            chosen.on_loss(index, index)
        assert sum(CARRIES_DATA[state] for state in chosen.state) == least


def test_a_loss_while_its_port_is_down_is_the_ports() -> None:
    """And so is one of a packet sent before the port went down, found after it is back."""
    chosen = path_set()
    chosen_evs(chosen, 64, 1000)
    chosen.set_port(0, False)
    chosen.on_loss(2, 1, 1000)
    chosen.set_port(0, True)
    chosen.on_loss(2, 2, 1000)
    assert chosen.state[2] == G
    chosen_evs(chosen, 64, 2000)
    chosen.on_loss(2, 3, 2000)
    assert chosen.state[2] == B


def test_an_ev_of_a_port_that_is_down_goes_bad_however_few_are_left() -> None:
    """It does not count, so nothing is below ev_min_active because of it."""
    chosen = path_set(config=PathConfig())
    chosen.set_port(0, False)
    for index in (4, 5, 6):
        chosen.on_loss(index, index)
    assert chosen.state[4:].tolist() == [B, B, S, G]
    chosen.on_mark(0, 2)
    assert chosen.state[0] == B


def test_with_every_port_down_nothing_is_chosen() -> None:
    """With no usable EV at all sending stops."""
    chosen = path_set()
    for port in (0, 1):
        chosen.set_port(port, False)
    assert not chosen.usable()
    assert _select(chosen, 4) == []
    chosen.set_port(1, True)
    assert chosen.usable()
    assert len(_select(chosen, 4)) == 4


@given(
    st.lists(
        st.tuples(
            st.sampled_from(STEPS),
            st.integers(0, 7),
        ),
        max_size=60,
    )
)
def test_whatever_happens_only_usable_evs_are_chosen(steps: list[tuple[str, int]]) -> None:
    """Every pick is GOOD when picked and its port up at both ends; there is one as long as any EV is usable."""
    chosen = path_set(config=PathConfig(ev_min_active=2))
    ours, theirs, denied = {0, 1}, {0, 1}, set[int]()
    for what, index in steps:
        ev = chosen.paths[index].ev
        if what in ("down", "up"):
            (ours.add if what == "up" else ours.discard)(_plane(index))
            chosen.set_port(_plane(index), what == "up")
        elif what in ("peer_down", "peer_up"):
            (theirs.add if what == "peer_up" else theirs.discard)(_plane(index))
            chosen.set_peer_port(_plane(index), what == "peer_up")
        elif what == "trim":
            chosen.on_trimmed(index)
        elif what == "deny":
            denied.add(index)
            chosen.deny(ev)
        elif what == "allow":
            denied.discard(index)
            chosen.allow(ev)
        elif what in ("mark", "always"):
            chosen.on_mark(index, 1 if what == "mark" else 2)
        elif what == "loss":
            chosen.on_loss(index, index)
        elif what == "spurious":
            chosen.on_spurious(index, index)
        elif what in ("clear", "marked"):
            chosen.on_probed(index, marked=what == "marked")
        up = ours & theirs
        picks = _select(chosen, 3)
        assert all(chosen.state[pick] == G and _plane(pick) in up for pick in picks)
        assert {at for at in range(8) if chosen.state[at] == D} == denied
        control = {_plane(at) for at in control_evs(chosen, 6, 0)}
        assert control <= (up or ours or {0, 1})
        usable = [at for at in range(8) if chosen.state[at] <= S and _plane(at) in up]
        assert len(picks) == (3 if usable else 0)
        assert chosen.usable() == bool(usable)
