# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations that we send of our own accord: class, EV and what is told of them (decisions.md)."""

from __future__ import annotations

from itertools import pairwise

from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, request, requests
from hand_peer import MICROSECOND, MILLISECOND, HandPeer, Sent, data, of

from mrc.endpoint.config import EndpointConfig, PathConfig, QpConfig
from mrc.wire.profile import WireProfile

SMALL = QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1))
RTT = 100 * MICROSECOND


def _own(hand: HandPeer) -> list[Sent]:
    """An update of a port that went down, and a probe to learn reverse EVs: we only receive for more than 10 ms."""
    hand.endpoint.set_port(0, False, hand.now)
    sent = hand.transmitted()
    for number in range(3):
        sent += hand.exchange(hand.request(number, b"x", plane=1), port=1)
        hand.now += 6 * MILLISECOND
    return requests(sent, PORT_STATUS_UPDATE)[:1] + requests(sent, EV_PROBE)[:1]


def test_our_own_requests_go_in_the_control_class() -> None:
    """wire.md section 12: requests take the class their caller names; here we are the caller. DSCP 46, or as set."""
    for dscp in (46, 33):
        own = _own(HandPeer(endpoint=EndpointConfig(wire=WireProfile(dscp_control=dscp))))
        assert [packet["erth"]["op"] for packet in own] == [PORT_STATUS_UPDATE, EV_PROBE]
        assert [packet.traffic_class for packet in own] == [dscp << 2] * 2


def _known(hand: HandPeer) -> set[int]:
    """Writes that are acknowledged until both planes have an EV known to work. Returns the last of each."""
    known: dict[int, int] = {}
    while len(known) < 2:
        hand.post(256)
        (packet,) = data(hand.transmitted())
        hand.now += RTT
        hand.receive(hand.sack(hand.posted - 1, ev=packet.ev))
        known[packet.port] = packet.ev
    return set(known.values())


def test_answers_to_endpoint_requests_take_evs_known_to_work() -> None:
    """behaviour.md, Reverse EVs carry control packets: at least one known good EV per plane."""
    hand = HandPeer(SMALL, endpoint=EndpointConfig(seed=5))
    before = {packet.ev for at in range(64) for packet in of(hand.exchange(request(at, EV_PROBE)), RESPONSE)}
    assert len(before) == 8
    known = _known(hand)
    answers = [packet for at in range(64) for packet in of(hand.exchange(request(at, EV_PROBE)), RESPONSE)]
    assert known <= {packet.ev for packet in answers}
    per_plane = [{packet.ev for packet in answers if packet.port == plane} for plane in (0, 1)]
    assert all(len(evs) <= 2 for evs in per_plane)
    assert all(one.port != other.port for one, other in pairwise(answers))


def test_endpoint_requests_are_answered_when_every_ev_has_lost_something() -> None:
    """Then any EV is tried: a peer that hears nothing learns nothing."""
    hand = HandPeer(SMALL)
    (node,) = hand.endpoint.peer_nodes.values()
    for number in range(8):
        hand.endpoint.probe_ev(node, number)
    assert len(requests(hand.transmitted(), EV_PROBE)) == 8
    hand.run(hand.now + 200 * MILLISECOND)
    assert hand.counters["ev_probes_failed"] == 8
    answers = [packet for at in range(64) for packet in of(hand.exchange(request(at, EV_PROBE)), RESPONSE)]
    assert len({packet.ev for packet in answers}) == 8


def test_events_of_ports_say_when_it_was() -> None:
    hand = HandPeer(SMALL)
    for req_id, mask in enumerate((0b10, 0b11)):
        hand.now += 3 * MILLISECOND
        hand.exchange(request(req_id, PORT_STATUS_UPDATE, port_status_mask=mask))
    assert [event.at_ns for event in hand.endpoint.events] == [4 * MILLISECOND, 7 * MILLISECOND]


def test_every_request_sent_is_counted_repetitions_too() -> None:
    """10 ms, 20 ms and 40 ms after the first: four updates in 100 ms; probes once each."""
    hand = HandPeer(SMALL)
    hand.endpoint.set_port(0, False, hand.now)
    (node,) = hand.endpoint.peer_nodes.values()
    for number in range(3):
        hand.endpoint.probe_ev(node, number)
    sent = hand.run(hand.now + 100 * MILLISECOND - 1)
    assert (len(requests(sent, PORT_STATUS_UPDATE)), len(requests(sent, EV_PROBE))) == (4, 3)
    assert (hand.counters["port_updates_sent"], hand.counters["ev_probes_sent"]) == (4, 3)
