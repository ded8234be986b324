# SPDX-License-Identifier: BSD-2-Clause
"""The ring of answers to endpoint requests: it goes round, and a node that is gone leaves no answer behind."""

from __future__ import annotations

from hand_operations import EV_PROBE, RESPONSE, request
from hand_peer import HandPeer, Sent, of, peer_address
from hypothesis import given
from hypothesis import strategies as st

from mrc.wire.transmit_batch import TransmitBatch

OTHER = 0xF0
MOST = 1024


def answered_ids(sent: list[Sent]) -> list[int]:
    return [packet.psn for packet in of(sent, RESPONSE)]


def sent_at_once(hand: HandPeer, most: int) -> int:
    return hand.endpoint.transmit(TransmitBatch(most), hand.now)


def test_as_many_leave_as_there_is_room_for_and_the_others_keep_their_order() -> None:
    hand = HandPeer()
    hand.receive(*(request(number, EV_PROBE) for number in range(MOST)))
    assert sent_at_once(hand, 1000) == 1000
    # Round the end of the ring.
    hand.receive(*(request(MOST + number, EV_PROBE) for number in range(1000)))
    assert answered_ids(hand.transmitted()) == list(range(1000, MOST + 1000))


@given(st.integers(0, MOST), st.lists(st.booleans(), max_size=40))
def test_only_the_answers_of_a_node_that_is_gone_go(before: int, whose: list[bool]) -> None:
    """Wherever in the ring they lie."""
    hand = HandPeer()
    hand.connect(hand.config, qpn=99, sources={0: OTHER})
    if before:
        hand.receive(*(request(number, EV_PROBE) for number in range(before)))
        assert sent_at_once(hand, MOST) == before
    for number, others in enumerate(whose):
        hand.receive(request(number, EV_PROBE, source=OTHER if others else peer_address(0)))
    hand.endpoint.destroy_qp(hand.qp)
    assert answered_ids(hand.transmitted()) == [number for number, others in enumerate(whose) if others]
    assert "endpoint_responses_dropped" not in hand.counters


def test_a_node_that_comes_where_one_was_gets_none_of_its_answers() -> None:
    hand = HandPeer()
    for number in range(100):
        hand.receive(request(number, EV_PROBE))
        hand.endpoint.destroy_qp(hand.qp)
        hand.qp = hand.connect(hand.config)
        assert hand.transmitted() == []
    assert answered_ids(hand.exchange(request(7, EV_PROBE))) == [7]
