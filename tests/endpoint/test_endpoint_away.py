"""While Python may be away: what can be done later is done later, and nothing of it is lost."""

from __future__ import annotations

from hand_operations import EV_PROBE, RESPONSE, request, requests
from hand_peer import MILLISECOND, HandPeer, of

from mrc.endpoint.put_aside import ROOM


def away(hand: HandPeer) -> None:
    hand.endpoint.datapath.away.up = True


def back(hand: HandPeer) -> None:
    """As the loop does it."""
    hand.endpoint.look_after(hand.now)
    hand.endpoint.datapath.away.up = False


def test_ev_probes_are_put_aside_and_answered_when_python_is_back() -> None:
    hand = HandPeer()
    away(hand)
    hand.receive(request(7, EV_PROBE), request(8, EV_PROBE))
    assert hand.endpoint.datapath.away.urgent
    assert of(hand.transmitted(), RESPONSE) == []
    hand.now += MILLISECOND
    back(hand)
    assert [packet.psn for packet in of(hand.transmitted(), RESPONSE)] == [7, 8]
    assert hand.counters["ev_probes_answered"] == 2
    # Once only.
    back(hand)
    assert of(hand.transmitted(), RESPONSE) == []


def test_no_more_than_there_is_room_for_are_put_aside_and_the_rest_is_counted() -> None:
    hand = HandPeer()
    away(hand)
    hand.receive(*(request(number, EV_PROBE) for number in range(ROOM + 3)))
    assert hand.counters["over_rate"] == 3
    back(hand)
    assert [packet.psn for packet in of(hand.transmitted(), RESPONSE)] == list(range(ROOM))


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
