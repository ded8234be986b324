# SPDX-License-Identifier: BSD-2-Clause
"""While Python may be away: what can be done later is done later, and nothing of it is lost."""

from __future__ import annotations

from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, request, requests, response
from hand_peer import MILLISECOND, HandPeer, of

from mrc.endpoint.node.put_aside import ROOM


def away(hand: HandPeer) -> None:
    hand.endpoint.datapath.intake.aside.make_room()
    hand.endpoint.datapath.away.up = True


def back(hand: HandPeer) -> None:
    """As the loop does it."""
    hand.endpoint.look_after(hand.now)
    hand.endpoint.datapath.away.up = False


def test_ev_probes_are_answered_and_python_is_not_wanted_for_it() -> None:
    hand = HandPeer()
    away(hand)
    answers = of(hand.exchange(request(7, EV_PROBE, tx_timestamp=99, ftype=1), request(8, EV_PROBE)), RESPONSE)
    assert [packet.psn for packet in answers] == [7, 8]
    assert answers[0]["eeth"]["tx_timestamp"] == 99
    assert hand.counters == {"ev_probes_answered": 2}
    assert not hand.endpoint.datapath.away.urgent
    # Once only.
    back(hand)
    assert hand.transmitted() == []


def test_nothing_that_is_only_counted_waits_for_python() -> None:
    """Strangers, unknown operations, what is misdirected and what is over the rate: none of them takes room aside."""
    hand = HandPeer()
    away(hand)
    hand.receive(*(request(number, PORT_STATUS_UPDATE, source=0xBAD) for number in range(ROOM)))
    hand.receive(*(request(number, 2) for number in range(ROOM)))
    hand.receive(*(hand.request(number, b"x", bth={"dqp": 2}) for number in range(ROOM)))
    assert not hand.endpoint.datapath.away.urgent
    assert hand.counters == {"unknown_peer": ROOM, "unknown_endpoint_operation": ROOM, "misdirected": ROOM}
    hand.receive(*(request(number, PORT_STATUS_UPDATE, port_status_mask=3) for number in range(ROOM + 1)))
    assert hand.counters["over_rate"] == 1
    hand.receive(request(9, EV_PROBE))
    assert [packet.psn for packet in of(hand.transmitted(), RESPONSE)] == [9]


def test_port_status_waits_for_python_and_so_does_its_answer() -> None:
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    away(hand)
    assert hand.exchange(request(7, PORT_STATUS_UPDATE, port_status_mask=1)) == []
    assert hand.endpoint.datapath.away.urgent
    assert node.planes_down == set()
    back(hand)
    assert node.planes_down == {1}
    assert [packet.psn for packet in hand.transmitted()] == [7]
    # Once only.
    back(hand)
    assert hand.transmitted() == []


def test_no_more_than_there_is_room_for_are_put_aside_and_the_rest_is_counted() -> None:
    hand = HandPeer()
    away(hand)
    hand.receive(*(response(number, EV_PROBE) for number in range(ROOM + 3)))
    assert hand.counters == {"over_rate": 3}
    back(hand)
    assert hand.counters == {"over_rate": 3, "unexpected_endpoint_response": ROOM}


def test_what_was_put_aside_of_a_node_that_is_gone_is_a_strangers() -> None:
    hand = HandPeer()
    away(hand)
    hand.receive(request(7, PORT_STATUS_UPDATE, port_status_mask=1), request(8, EV_PROBE))
    hand.endpoint.destroy_qp(hand.qp)
    back(hand)
    assert hand.transmitted() == []
    assert hand.counters == {"unknown_peer": 1, "ev_probes_answered": 1}


def test_operations_of_ours_wait_and_say_that_python_is_wanted() -> None:
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    away(hand)
    hand.endpoint.probe_ev(node, 0)
    assert requests(hand.transmitted(), EV_PROBE) == []
    assert hand.endpoint.datapath.away.urgent
    back(hand)
    assert len(requests(hand.transmitted(), EV_PROBE)) == 1


def test_data_is_placed_and_acknowledged_and_reverse_evs_are_learned_later() -> None:
    hand, there = HandPeer(), HandPeer()
    for each in (hand, there):
        each.now += 1000 * MILLISECOND
    away(hand)
    for number in range(40):
        for each in (hand, there):
            each.receive(each.request(number, b"x"))
            each.now += 11 * MILLISECOND
        assert [packet.opcode for packet in hand.transmitted() if packet.opcode != 0xD8] == [
            packet.opcode for packet in there.transmitted() if packet.opcode != 0xD8
        ]
    assert hand.endpoint.datapath.away.waits
    assert hand.counters["requests_received"] == there.counters["requests_received"] == 40
    back(hand)
    for number in (40, 41):
        hand.receive(hand.request(number, b"x"))
        hand.now += 11 * MILLISECOND
    assert len(requests(hand.transmitted(), EV_PROBE)) == 1
