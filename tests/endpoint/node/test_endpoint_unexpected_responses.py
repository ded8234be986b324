# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint responses nobody waits for: which of them mean that the peer may hold an old port status for true."""

from __future__ import annotations

from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, answered, requests, response
from hand_peer import HandPeer

from mrc.endpoint.config import EndpointConfig, PeerNodeConfig


def test_an_answer_to_no_probe_of_ours_makes_us_send_nothing() -> None:
    """Malformed or stray input never changes state: dropped and counted. Only old port status is worth a word."""
    hand = HandPeer()
    assert hand.exchange(response(7, EV_PROBE)) == []
    (node,) = hand.endpoint.peer_nodes.values()
    probe = hand.endpoint.probe_ev(node, 0)
    hand.transmitted()
    assert hand.exchange(response(probe, PORT_STATUS_UPDATE)) == []
    assert hand.exchange(response(probe, 2)) == []
    assert hand.counters["unexpected_endpoint_response"] == 3


def test_an_answer_to_no_probe_of_ours_does_not_disturb_an_update_that_is_out() -> None:
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (update,) = hand.transmitted()
    assert hand.exchange(response(update.psn + 1, EV_PROBE)) == []
    assert hand.exchange(response(update.psn + 1, PORT_STATUS_UPDATE)) == []
    assert hand.counters["unexpected_endpoint_response"] == 2


def test_an_answer_to_the_older_of_two_updates_is_expected_and_brings_a_third() -> None:
    """The newer may have overtaken the older: the peer is told once more what holds, under a new id."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (down,) = hand.transmitted()
    hand.endpoint.set_port(0, True, hand.now)
    (up,) = hand.transmitted()
    answered(hand, down, plane=1)
    (again,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    assert again["erth"]["port_status_mask"] == 0b11
    assert again.psn not in (down.psn, up.psn)
    assert "unexpected_endpoint_response" not in hand.counters


def test_an_answer_to_an_update_of_another_endpoint_at_our_address_makes_us_send_nothing() -> None:
    """Both are given each answer. Had each one something to say to the other's, they would never end."""
    hand = HandPeer(endpoint=EndpointConfig(peer_nodes=PeerNodeConfig(first_request_id=0xFFFE)))
    for up in (False, True):
        hand.endpoint.set_port(0, up, hand.now)
        (update,) = hand.transmitted()
        answered(hand, update, plane=1)
    assert update.psn == 0xFFFF
    assert hand.transmitted() == []
    told: dict[int, int] = {}
    # The last one is its own once more, of what no longer holds: late, or come twice.
    for answer in (0x1234, 0, 0xFFFE):
        hand.receive(response(answer, PORT_STATUS_UPDATE, plane=1), port=1)
        told[answer] = len(requests(hand.transmitted(), PORT_STATUS_UPDATE))
    assert told == {0x1234: 0, 0: 0, 0xFFFE: 1}


def test_two_endpoints_at_the_peers_address_are_told_once() -> None:
    """Each of them answers each update. Had a second answer something to be said to, it would never end."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (update,) = hand.transmitted()
    for _ in range(2):
        answered(hand, update, plane=1)
    assert hand.transmitted() == []
    hand.endpoint.set_port(0, True, hand.now)
    (update,) = hand.transmitted()
    for _ in range(2):
        answered(hand, update, plane=1)
    assert hand.transmitted() == []


def test_two_endpoints_at_the_peers_address_keep_what_a_controller_tells() -> None:
    """The second answer does not make us say what holds instead."""
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    told: list[int | None] = []
    hand.endpoint.tell_port_status(node, 0b01, hand.now + 10**9, told.append)
    (update,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    for _ in range(2):
        hand.receive(response(update.psn, PORT_STATUS_UPDATE))
    assert len(told) == 1
    assert hand.transmitted() == []
