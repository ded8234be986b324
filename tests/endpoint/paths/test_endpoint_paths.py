# SPDX-License-Identifier: BSD-2-Clause
"""Which EV a packet gets and what becomes of a bad one (behaviour.md, Paths)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hand_peer import HandPeer, chosen_evs, control_evs, data, paths
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import PathConfig, QpConfig
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


def test_planes_and_their_evs_carry_equal_shares() -> None:
    """An equal share per plane, and the EVs of a plane in turn. MRC-PATH-03, MRC-PATH-26."""
    chosen = path_set()
    picks = _select(chosen, 1024)
    counts = Counter(picks)
    assert set(counts) == set(range(8))
    assert max(counts.values()) - min(counts.values()) <= 8
    assert abs(sum(_plane(index) for index in picks) - 512) <= 8


def test_rotations_are_shuffled_anew_and_differ_between_qps() -> None:
    """Pseudo-random and reshuffled, per QP, so that QPs do not march in step. MRC-PATH-27."""
    one, other = path_set(seed=1), path_set(seed=2)
    first, second = _select(one, 256), _select(one, 256)
    assert first != second
    assert first != _select(other, 256)
    assert _select(path_set(seed=1), 256) == first


def test_a_marked_ev_is_passed_over_once() -> None:
    """SKIP: set GOOD as the rotation passes it, but this packet takes the next GOOD. MRC-PATH-08."""
    chosen = path_set()
    chosen.on_mark(3, 1)
    assert chosen.state[3] == S
    with_one_skipped: list[int] = []
    while chosen.state[3] == S:
        with_one_skipped += _select(chosen, 1)
    assert 3 not in with_one_skipped
    assert len(with_one_skipped) <= 9
    assert 3 in _select(chosen, 16)


def test_one_packet_resets_one_skip() -> None:
    """One reset per packet. MRC-PATH-09."""
    chosen = path_set()
    for index in range(7):
        chosen.on_mark(index, 1)
    before = int((chosen.state == S).sum())
    for _ in range(40):
        (pick,) = _select(chosen, 1)
        after = int((chosen.state == S).sum())
        assert before - after in (0, 1)
        before = after
        assert chosen.state[pick] == G
    assert before == 0


def test_when_a_whole_rotation_finds_no_good_ev_the_one_just_reset_is_used() -> None:
    """MRC-PATH-15."""
    chosen = path_set()
    for index in range(8):
        chosen.on_mark(index, 1)
    (pick,) = _select(chosen, 1)
    assert chosen.state.tolist().count(G) == 1
    assert chosen.state[pick] == G


def test_of_two_in_skip_one_behind_the_other_the_second_waits_for_the_next_packet() -> None:
    """One reset per packet, and it takes the next GOOD: the walk by hand, over an order that is known. MRC-PATH-09."""
    first, second, third, fourth = order = _select(path_set(1, 4), 4)
    chosen = path_set(1, 4)
    for index in (first, second):
        chosen.on_mark(index, 1)
    assert _select(chosen, 2) == [third, fourth]
    assert [chosen.state[index] for index in order] == [G, S, G, G]


@pytest.mark.parametrize("in_skip", [255, 256])
def test_with_256_evs_in_skip_each_packet_still_finds_one(in_skip: int) -> None:
    """MRC-PATH-15."""
    chosen = path_set(2, 128)
    for index in range(in_skip):
        chosen.on_mark(index, 1)
    for already in range(20):
        (pick,) = _select(chosen, 1)
        assert chosen.state[pick] == G
        assert chosen.state.tolist().count(S) in (in_skip - already - 1, in_skip - already)


@pytest.mark.parametrize("seed", range(40))
def test_the_only_good_ev_is_found_wherever_the_rotation_stands(seed: int) -> None:
    """Set GOOD, but take the next GOOD for this packet: the one just reset only when there is no other. MRC-PATH-08."""
    chosen = path_set(1, 5, seed=seed)
    _select(chosen, seed)
    for index in range(4):
        chosen.on_mark(index, 1)
    assert _select(chosen, 1) == [4]


def test_feedback_while_in_skip_is_ignored() -> None:
    """A second mark in SKIP does not make it skip twice. MRC-PATH-10."""
    chosen = path_set()
    for _ in range(3):
        chosen.on_mark(3, 1)
    for _ in range(20):
        _select(chosen, 1)
    assert chosen.state[3] == G


def test_one_loss_condemns_and_a_bad_ev_gets_nothing() -> None:
    """MRC-PATH-24."""
    chosen = path_set()
    chosen.on_loss(5, 100)
    assert chosen.state[5] == B
    counts = Counter(_select(chosen, 3000))
    assert 5 not in counts
    # Without a reserve the plane's other EVs carry its share.
    plane_1 = sum(count for index, count in counts.items() if _plane(index) == 1)
    assert abs(plane_1 - 1500) <= 10
    assert max(counts[index] for index in (4, 6, 7)) - min(counts[index] for index in (4, 6, 7)) <= 12


def test_always_skip_condemns() -> None:
    """MRC-PATH-06, MRC-SACK-10."""
    for state in (G, S):
        chosen = path_set()
        if state == S:
            chosen.on_mark(2, 1)
        chosen.on_mark(2, 2)
        assert chosen.state[2] == B


def test_a_trimmed_packet_is_a_mark() -> None:
    """NACK TRIMMED: GOOD to SKIP, and ignored in SKIP and ASSUMED_BAD. MRC-PATH-05, MRC-PATH-10."""
    chosen = path_set()
    for _ in range(2):
        chosen.on_trimmed(2)
        assert chosen.state[2] == S
    chosen.on_loss(3, 1)
    chosen.on_trimmed(3)
    assert chosen.state[3] == B


def test_reserved_marks_change_nothing() -> None:
    """wire.md section 6: m=3 is reserved; malformed input never changes state. MRC-SACK-10."""
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.receive(hand.sack(0, ev=packet.ev, m=3))
    assert hand.qp.paths is not None
    assert set(hand.qp.paths.state.tolist()) == {int(G)}


def test_a_plane_wholly_bad_gives_its_share_to_the_others_until_one_is_back() -> None:
    """MRC-PATH-25."""
    chosen = path_set()
    for index in range(4):
        chosen.on_loss(index, index)
    assert {_plane(index) for index in _select(chosen, 200)} == {1}
    chosen.on_probed(2, marked=False)
    counts = Counter(_select(chosen, 2000))
    assert abs(counts[2] - 1000) <= 10
    assert not {0, 1, 3} & set(counts)


def test_a_bad_ev_is_replaced_by_a_reserve_ev_of_the_same_plane() -> None:
    """So planes stay equally loaded; a restored one then joins the reserve. MRC-PATH-20, MRC-PATH-23."""
    chosen = path_set(2, 8, PathConfig(active_count=8, ev_min_active=1))
    active = set(_select(chosen, 512))
    assert [sum(_plane(index, 8) == plane for index in active) for plane in (0, 1)] == [4, 4]
    victim = min(active)
    chosen.on_loss(victim, 1)
    now_active = set(_select(chosen, 512))
    assert len(now_active) == 8
    (substitute,) = now_active - active
    assert active - now_active == {victim}
    assert _plane(substitute, 8) == _plane(victim, 8)
    chosen.on_probed(victim, marked=False)
    assert chosen.state[victim] == G
    assert set(_select(chosen, 512)) == now_active


def test_a_restored_ev_rejoins_the_active_set_where_its_plane_is_short() -> None:
    """MRC-PATH-20."""
    chosen = path_set()
    chosen.on_loss(1, 1)
    chosen.on_probed(1, marked=False)
    assert 1 in _select(chosen, 64)


def test_probed_with_a_mark_it_comes_back_to_skip() -> None:
    chosen = path_set()
    chosen.on_loss(1, 1)
    chosen.on_probed(1, marked=True)
    assert chosen.state[1] == S


def test_the_loss_that_condemned_proves_spurious() -> None:
    """MRC-PATH-13."""
    chosen = path_set()
    chosen.on_loss(1, 77)
    chosen.on_loss(1, 78)
    chosen.on_spurious(1, 78)
    assert chosen.state[1] == B  # not the loss that condemned it
    chosen.on_spurious(1, 77)
    assert chosen.state[1] == G


def test_a_spurious_loss_does_not_lift_an_always_skip() -> None:
    """Only "the loss that condemned it": here the peer's m=2 did."""
    chosen = path_set()
    chosen.on_mark(1, 2)
    chosen.on_loss(1, 77)
    chosen.on_spurious(1, 77)
    assert chosen.state[1] == B


@pytest.mark.parametrize(("least", "stays"), [(None, 2), (1, 1), (5, 5), (8, 8)])
def test_fewer_than_ev_min_active_never_remain(least: int | None, stays: int) -> None:
    """Of 8 EVs a quarter by default: one that would go bad below it goes to SKIP instead. MRC-PATH-21."""
    chosen = path_set(config=PathConfig(ev_min_active=least))
    for index in range(8):
        chosen.on_loss(index, index)
        usable = sum(CARRIES_DATA[state] for state in chosen.state)
        assert usable == max(stays, 7 - index)
    assert chosen.state.tolist().count(S) >= 1
    assert len(_select(chosen, 10)) == 10


def test_the_default_minimum_is_a_quarter_rounded_up_and_at_least_1() -> None:
    """MRC-PATH-22."""
    for planes, spines, least in ((1, 1, 1), (1, 4, 1), (1, 5, 2), (3, 3, 3)):
        chosen = path_set(planes, spines, PathConfig())
        for index in range(planes * spines):
            chosen.on_loss(index, index)
        assert sum(CARRIES_DATA[state] for state in chosen.state) == least


def test_a_port_down_takes_its_evs_out_at_once_and_up_brings_them_back() -> None:
    """MRC-PORT-01, MRC-PORT-04."""
    chosen = path_set()
    _select(chosen, 5)  # in the middle of a rotation
    chosen.set_port(0, False)
    assert {_plane(index) for index in _select(chosen, 200)} == {1}
    assert {_plane(index) for index in control_evs(chosen, 50, 0)} == {1}
    chosen.set_port(0, True)
    assert {_plane(index) for index in _select(chosen, 200)} == {0, 1}


def test_a_peers_port_down_is_as_good_as_ours() -> None:
    """MRC-PORT-03."""
    chosen = path_set()
    chosen.set_peer_port(0, False)
    assert {_plane(index) for index in _select(chosen, 200)} == {1}
    assert {_plane(index) for index in control_evs(chosen, 50, 0)} == {1}
    assert not chosen.port_up(0)
    chosen.set_peer_port(0, True)
    assert {_plane(index) for index in _select(chosen, 200)} == {0, 1}


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


def test_evs_of_a_port_that_is_down_do_not_count_as_usable() -> None:
    """With one plane down, two EVs left (a quarter of eight) are the fewest. MRC-PATH-22."""
    chosen = path_set(config=PathConfig())
    chosen.set_port(0, False)
    for index in range(4, 8):
        chosen.on_loss(index, index)
    assert sum(CARRIES_DATA[state] for state in chosen.state[4:]) == 2


def test_an_ev_of_a_port_that_is_down_goes_bad_however_few_are_left() -> None:
    """It does not count, so nothing is below ev_min_active because of it. MRC-PATH-22."""
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


def test_a_port_down_moves_a_qps_data_and_leaves_events() -> None:
    """MRC-PORT-01, MRC-PORT-04."""
    hand = HandPeer(QpConfig(path_mtu=256))
    for up, ports in ((True, {0, 1}), (False, {1}), (True, {0, 1})):
        if hand.posted:
            hand.endpoint.set_port(0, up, hand.now)
        hand.post(256 * 20)
        sent = data(hand.transmitted())
        assert {packet.port for packet in sent} == ports
        hand.receive(hand.ack(hand.posted * 20 - 1))
    assert [event.values for event in hand.endpoint.events] == [("local", 0, False), ("local", 0, True)]


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
