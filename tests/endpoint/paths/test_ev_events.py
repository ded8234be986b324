# SPDX-License-Identifier: BSD-2-Clause
"""The queue of EV events never blocks, and counts what it dropped (api.md, EV events)."""

from __future__ import annotations

from random import Random

from hand_peer import HandPeer, Sent, chosen_evs, data, paths

from mrc.endpoint.config import EndpointConfig, PathConfig, QpConfig
from mrc.endpoint.paths.ev_events import EvEvents, EvObservers
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState


def _condemn(hand: HandPeer) -> Sent:
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.receive(hand.sack(hand.posted - 1, ev=packet.ev, m=2))
    return packet


def test_each_event_that_finds_no_room_is_counted() -> None:
    hand = HandPeer(
        QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1)), endpoint=EndpointConfig(seed=1, ev_event_limit=2)
    )
    events = hand.endpoint.ev_events
    events.wanted = frozenset({EvState.ASSUMED_BAD})
    condemned = [_condemn(hand) for _ in range(5)]
    assert [(event.ev, event.port) for event in events.queue] == [(sent.ev, sent.port) for sent in condemned[:2]]
    assert events.dropped == 3
    events.queue.popleft()
    last = _condemn(hand)
    assert [event.ev for event in events.queue] == [condemned[1].ev, last.ev]
    assert events.dropped == 3


def test_an_event_says_when_and_of_which_profile_also_where_the_rotation_made_it() -> None:
    """api.md, EV events: "An event tells profile, EV and port, and the new state": SKIP, and GOOD again."""
    for wanted in ({EvState.SKIP, EvState.GOOD}, {EvState.SKIP}):
        hand = HandPeer(
            QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1)),
            endpoint=EndpointConfig(seed=1),
            planes=1,
            spines=2,
        )
        hand.endpoint.ev_events.wanted = frozenset(wanted)
        hand.post(256)
        (packet,) = data(hand.transmitted())
        hand.now += 1000
        hand.receive(hand.sack(0, ev=packet.ev, m=1))
        hand.post(2560)
        hand.transmitted()
        events = list(hand.endpoint.ev_events.queue)
        assert [event.state for event in events] == [EvState.SKIP, EvState.GOOD][: len(wanted)]
        for event in events:
            assert (event.qpn, event.ev, event.port) == (hand.qp.qpn, packet.ev, packet.port)
            assert event.at_ns == hand.now
            assert event.profile_id == hand.qp.paths.profile_id


def test_who_does_not_want_skip_hears_nothing_of_its_end() -> None:
    """An EV in SKIP is in use: for a queue without SKIP it was GOOD all the time."""
    both, good_only = EvEvents(9), EvEvents(9)
    both.wanted = frozenset({EvState.SKIP, EvState.GOOD})
    good_only.wanted = frozenset({EvState.GOOD})
    both.attach(good_only)
    chosen = PathSet(paths(1, 2), PathConfig(), Random(1), observers=EvObservers(events=both))
    chosen.on_mark(0, 1)
    chosen_evs(chosen, 8)
    assert [event.state for event in both.queue] == [EvState.SKIP, EvState.GOOD]
    assert list(good_only.queue) == []
