# SPDX-License-Identifier: BSD-2-Clause
"""Two endpoints at one address, as on a loopback: each receives what either of them sends, its own packets included."""

from __future__ import annotations

import pytest
from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, REQUEST, RESPONSE, request, requests, response
from hand_peer import HandPeer, local_address, of

from mrc.endpoint.config import QpConfig
from mrc.endpoint.node.peer_node import PeerNode

OURS = local_address(0)


@pytest.fixture
def hand() -> HandPeer:
    hand = HandPeer(planes=1, to_rts=False)
    hand.connect(QpConfig(), qpn=77, sources={0: OURS})
    return hand


def beside(hand: HandPeer) -> PeerNode:
    (node,) = (each for each in hand.endpoint.peer_nodes.values() if each.sources == {0: OURS})
    return node


def test_a_probe_of_our_own_is_left_to_the_other_endpoint(hand: HandPeer) -> None:
    results: list[int | None] = []
    probe = hand.endpoint.probe_ev(beside(hand), 0, on_result=lambda result: results.append(result.rtt_ns))
    (sent,) = of(hand.transmitted(), REQUEST)
    assert sent.psn == probe
    hand.receive(request(probe, EV_PROBE, source=OURS))
    assert of(hand.transmitted(), RESPONSE) == []
    assert hand.counters == {"ev_probes_sent": 1}
    assert results == []
    hand.now += 5000
    hand.receive(response(probe, EV_PROBE, source=OURS))
    assert results == [5000]
    assert hand.counters == {"ev_probes_sent": 1}


def test_a_probe_of_the_other_endpoint_is_answered_and_its_answer_is_nobodys_business(hand: HandPeer) -> None:
    hand.endpoint.probe_ev(beside(hand), 0)
    (sent,) = of(hand.transmitted(), REQUEST)
    hand.receive(request(sent.psn + 1, EV_PROBE, source=OURS))
    (answer,) = of(hand.transmitted(), RESPONSE)
    assert answer.psn == sent.psn + 1
    # Our answer comes back to us as well.
    hand.receive(response(answer.psn, EV_PROBE, source=OURS))
    assert hand.transmitted() == []
    assert hand.counters == {"ev_probes_sent": 1, "ev_probes_answered": 1}


def test_port_status_of_our_own_is_not_the_peers(hand: HandPeer) -> None:
    hand.endpoint.tell_port_status(beside(hand), 0, hand.now + 10**9, lambda answered: None)
    (sent,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    hand.receive(request(sent.psn, PORT_STATUS_UPDATE, source=OURS, port_status_mask=0))
    assert of(hand.transmitted(), RESPONSE) == []
    assert beside(hand).planes_down == set()
    assert hand.counters == {"port_updates_sent": 1}
    hand.receive(request(sent.psn + 1, PORT_STATUS_UPDATE, source=OURS, port_status_mask=0))
    assert len(of(hand.transmitted(), RESPONSE)) == 1
    assert beside(hand).planes_down == {0}


def test_a_stray_answer_of_another_machine_is_still_counted(hand: HandPeer) -> None:
    hand.receive(response(7, EV_PROBE))
    assert hand.counters == {"unexpected_endpoint_response": 1}


def test_an_answer_to_another_endpoint_at_our_address_is_counted_only_where_there_is_none(hand: HandPeer) -> None:
    """A peer answers both of us at once; only the owner of the ports knows whether there are two."""
    (peer,) = (each for each in hand.endpoint.peer_nodes.values() if each is not beside(hand))
    hand.endpoint.probe_ev(peer, 0)
    (sent,) = of(hand.transmitted(), REQUEST)
    hand.endpoint.shares_addresses = lambda: True
    hand.receive(response(sent.psn + 9, EV_PROBE))
    assert "unexpected_endpoint_response" not in hand.counters
    # One of our own still is: answered twice, it was expected once.
    for _ in range(2):
        hand.receive(response(sent.psn, EV_PROBE))
    assert hand.counters["unexpected_endpoint_response"] == 1
    hand.endpoint.shares_addresses = lambda: False
    hand.receive(response(sent.psn + 9, EV_PROBE))
    assert hand.counters["unexpected_endpoint_response"] == 2
