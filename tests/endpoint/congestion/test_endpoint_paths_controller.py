# SPDX-License-Identifier: BSD-2-Clause
"""What a controller does to EVs, what it is told of them, and which losses are one event (behaviour.md, Paths)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import HandPeer, chosen_evs, data, paths

from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.paths.ev_events import EvEvent, EvEvents, EvObservers
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState
from mrc.errors import CallerError

G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED
FREE = PathConfig(ev_min_active=1)


def path_set(planes: int = 2, spines: int = 4, config: PathConfig = FREE) -> PathSet:
    return PathSet(paths(planes, spines), config, Random(3))


def _select(chosen: PathSet, count: int) -> list[int]:
    return chosen_evs(chosen, count)


def test_allowing_what_is_not_denied_changes_nothing() -> None:
    """A bad EV comes back by probes, not by the controller."""
    chosen = path_set()
    chosen.on_loss(3, 7)
    chosen.allow(chosen.paths[3].ev)
    assert chosen.state[3] == B


def test_an_ev_of_another_profile_can_be_neither_denied_nor_allowed() -> None:
    chosen = path_set()
    for operation in (chosen.deny, chosen.allow):
        with pytest.raises(CallerError):
            operation(0xDEADBEEF)


def test_denied_evs_are_replaced_from_the_reserve_of_their_plane() -> None:
    chosen = path_set(2, 8, PathConfig(active_count=8, ev_min_active=1))
    before = set(_select(chosen, 512))
    victim = max(before)
    chosen.deny(chosen.paths[victim].ev)
    (substitute,) = set(_select(chosen, 512)) - before
    assert substitute // 8 == victim // 8 == 1


def test_what_was_in_flight_when_an_ev_went_down_is_one_event() -> None:
    """Restored meanwhile, it is not condemned again by packets sent before; by one sent after it is."""
    chosen = path_set()
    for now in range(1000, 1020):
        chosen_evs(chosen, 8, now)
    chosen.on_loss(3, 1, 1005)
    assert chosen.state[3] == B
    chosen.on_probed(3, marked=False)
    for psn, sent_at in ((2, 1004), (3, 1012), (4, 1019)):
        chosen.on_loss(3, psn, sent_at)
        assert chosen.state[3] == G
    assert chosen.lost[3] == 4
    chosen_evs(chosen, 64, 2000)
    chosen.on_loss(3, 5, 2000)
    assert chosen.state[3] == B


def test_one_event_spares_an_ev_kept_by_ev_min_active_too() -> None:
    """In SKIP instead of bad: the rest of what was in flight does not condemn it once others are back."""
    chosen = path_set(1, 4, PathConfig(ev_min_active=3))
    chosen_evs(chosen, 64, 1000)
    chosen.on_loss(0, 1, 1000)
    chosen.on_loss(1, 2, 1000)
    assert [chosen.state[0], chosen.state[1]] == [B, S]
    chosen.on_probed(0, marked=False)
    chosen.on_loss(1, 3, 1000)
    assert chosen.state[1] == S


def test_a_spurious_loss_ends_the_event() -> None:
    """It was none: a loss that is real condemns, whenever the packet was sent."""
    chosen = path_set()
    chosen_evs(chosen, 64, 1000)
    chosen.on_loss(3, 1, 1000)
    chosen.on_spurious(3, 1)
    assert chosen.state[3] == G
    chosen.on_loss(3, 2, 1000)
    assert chosen.state[3] == B


def test_ev_events_are_kept_for_whoever_asked() -> None:
    """GOOD, ASSUMED_BAD and DENIED as asked for, none for SKIP, none at all until asked; a bounded queue with a
    count of what it dropped (api.md, EV events)."""
    events = EvEvents(3)
    chosen = PathSet(paths(), FREE, Random(1), observers=EvObservers(0x77, events=events))
    chosen.on_loss(1, 1)
    chosen.on_probed(1, marked=False)
    assert not events.queue
    events.wanted = frozenset({G, B, D})
    chosen.on_mark(2, 1)
    _select(chosen, 64)
    assert chosen.state[2] == G
    assert not events.queue
    chosen.on_loss(5, 9)
    chosen.on_probed(5, marked=True)  # back in use, though in SKIP
    chosen.deny(chosen.paths[2].ev)
    ev_2, ev_5 = chosen.paths[2].ev, chosen.paths[5].ev
    expected = [EvEvent(0x77, ev_5, 1, B), EvEvent(0x77, ev_5, 1, G), EvEvent(0x77, ev_2, 0, D)]
    assert list(events.queue) == expected
    chosen.allow(ev_2)
    assert (list(events.queue), events.dropped) == (expected, 1)
    events.queue.clear()
    events.wanted = frozenset({B})
    chosen.on_loss(2, 1)
    chosen.on_probed(2, marked=False)
    assert list(events.queue) == [EvEvent(0x77, ev_2, 0, B)]


def test_ev_events_of_all_qps_come_out_of_the_endpoint() -> None:
    hand = HandPeer(QpConfig(path_mtu=256, paths=FREE))
    hand.endpoint.ev_events.wanted = frozenset({B})
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.receive(hand.sack(0, ev=packet.ev, m=2))
    assert list(hand.endpoint.ev_events.queue) == [EvEvent(hand.qp.qpn, packet.ev, packet.port, B)]
