"""The queue of EV events never blocks, and counts what it dropped (api.md, EV events)."""

from __future__ import annotations

from hand_peer import HandPeer, Sent, data

from mrc.endpoint.config import EndpointConfig, PathConfig, QpConfig
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
