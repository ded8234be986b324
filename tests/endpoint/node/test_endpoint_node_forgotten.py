# SPDX-License-Identifier: BSD-2-Clause
"""A peer node is forgotten with its last QP: what it asked, what it was told, and who else has its address."""

from __future__ import annotations

from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, request, requests
from hand_peer import MILLISECOND, HandPeer, of, peer_address


def test_a_node_that_shares_an_address_with_one_forgotten_is_still_answered() -> None:
    """Peer nodes are told apart by the set of their addresses; these two have plane 0's in common."""
    hand = HandPeer()
    other = hand.connect(hand.config, qpn=99, sources={0: peer_address(0)})
    hand.endpoint.destroy_qp(hand.qp)
    (answer,) = hand.exchange(request(1, EV_PROBE))
    assert (answer.opcode, answer.psn) == (RESPONSE, 1)
    assert hand.exchange(request(2, EV_PROBE, plane=1), port=1) == []
    hand.endpoint.destroy_qp(other)
    assert hand.exchange(request(3, EV_PROBE)) == []
    assert hand.counters == {"ev_probes_answered": 1, "unknown_peer": 2}


def test_answers_that_wait_for_a_node_go_with_it_and_others_stay() -> None:
    hand = HandPeer()
    hand.connect(hand.config, qpn=99, sources={0: 0xF0, 1: 0xF1})
    hand.receive(request(1, EV_PROBE), request(2, EV_PROBE, source=0xF0), request(3, EV_PROBE))
    hand.endpoint.destroy_qp(hand.qp)
    (answer,) = hand.transmitted()
    assert (answer.opcode, answer.psn) == (RESPONSE, 2)
    assert [packet.psn for packet in of(hand.exchange(request(4, EV_PROBE, source=0xF0)), RESPONSE)] == [4]


def test_a_peer_that_is_gone_and_back_is_told_of_a_port_that_is_still_down() -> None:
    """Every peer gets an update; what the one before was told, and had not answered, is not known to this one."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (before,) = hand.transmitted()
    hand.endpoint.destroy_qp(hand.qp)
    hand.qp = hand.connect(hand.config)
    (update,) = requests(hand.transmitted(), PORT_STATUS_UPDATE)
    assert update["erth"]["port_status_mask"] == 0b10
    assert update.psn != before.psn
    assert {packet.psn for packet in hand.run(hand.now + 100 * MILLISECOND)} == {update.psn}
