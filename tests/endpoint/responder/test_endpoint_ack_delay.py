# SPDX-License-Identifier: BSD-2-Clause
"""A transport ACK that waits because a SACK says as much (behaviour.md, Transport ACK, of grade C)."""

from __future__ import annotations

import pytest
from hand_peer import ACK, MILLISECOND, PEER_FIRST_PSN, SACK, SECOND, HandPeer, Sent, of

from mrc.endpoint.config import QpConfig, ResponderConfig
from mrc.errors import CallerError

DELAY = 4 * MILLISECOND


def _hand(delay: int = DELAY) -> HandPeer:
    return HandPeer(QpConfig(path_mtu=256, responder=ResponderConfig(ack_after_sack_ns=delay)))


def _write(hand: HandPeer, number: int, *, ackreq: int = 1) -> list[Sent]:
    """What answers a write of the peer's, which asks for a SACK or not."""
    return hand.exchange(hand.request(number, b"x", bth={"ackreq": ackreq}))


def _acked(sent: list[Sent]) -> list[int]:
    return [packet.psn for packet in of(sent, ACK)]


def test_beside_a_sack_it_waits_and_then_goes_by_itself() -> None:
    hand = _hand()
    began = hand.now
    sent = _write(hand, 0)
    assert of(sent, SACK)[0].psn == PEER_FIRST_PSN + 0
    assert _acked(sent) == []
    assert hand.endpoint.next_deadline() == began + DELAY
    sent = hand.run(began + SECOND, stop_at_first=True)
    assert _acked(sent) == [PEER_FIRST_PSN + 0]
    assert hand.now == began + DELAY
    assert hand.run(hand.now + 10 * SECOND) == []


def test_without_a_sack_it_goes_at_once_and_stands_for_those_that_waited() -> None:
    hand = _hand()
    assert _acked(_write(hand, 0)) == []
    hand.now += MILLISECOND
    assert _acked(_write(hand, 1, ackreq=0)) == [PEER_FIRST_PSN + 1]
    assert hand.run(hand.now + 10 * SECOND) == []


def test_a_stream_of_sacks_does_not_put_it_off_for_ever() -> None:
    """Writes a millisecond apart, each with a SACK: an ACK every fifth time, when the first has waited for 4 ms."""
    hand = _hand()
    acked = []
    for number in range(20):
        sent = _write(hand, number)
        assert len(of(sent, SACK)) == 1
        acked += _acked(sent)
        hand.now += MILLISECOND
    assert acked == [PEER_FIRST_PSN + number for number in (4, 9, 14, 19)]


def test_a_hole_waits_for_nothing() -> None:
    """While there is a hole no ACK is due, waiting or not; when it closes one covers all."""
    hand = _hand()
    assert _acked(_write(hand, 1)) == []
    assert hand.run(hand.now + SECOND) == []
    assert _acked(_write(hand, 0)) == []
    assert _acked(hand.run(hand.now + SECOND, stop_at_first=True)) == [PEER_FIRST_PSN + 1]


def test_a_refusal_ends_the_wait() -> None:
    hand = _hand()
    assert _acked(_write(hand, 0)) == []
    sent = hand.exchange(hand.request(1, b"x", rkey=hand.region.rkey ^ 1))
    (nak,) = of(sent, ACK)
    assert nak.psn == PEER_FIRST_PSN + 1
    assert hand.run(hand.now + SECOND) == []


@pytest.mark.parametrize("delay", [-1, SECOND + 1])
def test_a_wait_of_another_length_is_refused(delay: int) -> None:
    with pytest.raises(CallerError, match=f"ack_after_sack_ns must be 0..1000000000, got {delay}"):
        ResponderConfig(ack_after_sack_ns=delay)
