# SPDX-License-Identifier: BSD-2-Clause
"""How long a PSN waits that the peer had no room for, and what ends the wait (behaviour.md, Requestor)."""

from __future__ import annotations

import pytest
from hand_peer import numbers
from nacking import RESOURCES, RTT, send, trained


@pytest.mark.parametrize("reason", RESOURCES)
def test_an_answer_that_acknowledges_nothing_does_not_make_a_refused_psn_fit(reason: int) -> None:
    """It was the oldest when it was sent, and is so still: it was refused although it was, and waits."""
    hand = trained()
    before = send(hand, 4)
    assert numbers(hand, hand.exchange(hand.sack(0, above=[4]), hand.nack(1, reason, ev=before[1].ev))) == []
    nacked_at = hand.now
    assert numbers(hand, hand.run(nacked_at + RTT - 1)) == []
    assert numbers(hand, hand.run(nacked_at + RTT)) == [1]


@pytest.mark.parametrize("reason", RESOURCES)
def test_new_psns_go_with_the_oldest_when_nothing_waits_behind_it(reason: int) -> None:
    """It fits any buffer and waits no more, so nothing holds up what is new."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(2, reason, ev=before[2].ev))
    hand.post(256)
    assert numbers(hand, hand.transmitted()) == []
    assert numbers(hand, hand.exchange(hand.sack(1))) == [2, 5]


@pytest.mark.parametrize("reason", RESOURCES)
def test_a_psn_that_waits_is_work_until_it_has_gone(reason: int) -> None:
    """What is on its way is no work: the QP takes no turn from others while it waits for an answer."""
    hand = trained()
    before = send(hand, 2)
    assert not hand.qp.has_work()
    hand.receive(hand.nack(2, reason, ev=before[2].ev))
    assert numbers(hand, hand.transmitted()) == []
    assert hand.qp.has_work()
    assert numbers(hand, hand.run(hand.now + RTT)) == [2]
    assert not hand.qp.has_work()
