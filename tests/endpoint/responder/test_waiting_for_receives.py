# SPDX-License-Identifier: BSD-2-Clause
"""Writes with immediate that are due and find no receive: they wait, unacknowledged (behaviour.md, Responder)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import ACK, MILLISECOND, ONLY_IMMEDIATE, REGION_VA, SACK, SECOND, HandPeer, of

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import MOST_WAIT_FOR_RECEIVE_NS, QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError

WAIT_NS = 100 * MILLISECOND
CONFIG = QpConfig(path_mtu=256, max_wimm_dest=4, responder=ResponderConfig(wait_for_receive_ns=WAIT_NS))
INVALID = 0x61


def _immediate(hand: HandPeer, number: int, rqmsn: int, size: int = 4) -> bytes:
    va = REGION_VA + 16 * number
    return hand.request(number, bytes((number + 1,)) * size, op=ONLY_IMMEDIATE, va=va, rqmsn=rqmsn, immediate=number)


def _delivered(hand: HandPeer) -> list[tuple[int, int | None]]:
    """wr_id and immediate of each receive that has completed since the last call."""
    done = list(hand.endpoint.completions)
    hand.endpoint.completions.clear()
    assert all(each.status == WorkStatus.SUCCESS for each in done)
    return [(each.wr_id, each.immediate) for each in done]


def _post(hand: HandPeer, wr_id: int) -> None:
    hand.qp.post_receive(wr_id)
    hand.endpoint.wake(hand.qp)


def test_what_came_after_it_waits_too_and_goes_on_with_it() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(*(_immediate(hand, at, at) for at in (2, 1, 0)), hand.request(4, b"plain"))
    hand.exchange(hand.request(3, b"plain"))
    _post(hand, 10)
    (ack,) = hand.transmitted()
    assert (ack.psn - hand.peer_first_psn, ack["aeth"]["msn"]) == (0, 1)
    _post(hand, 11)
    _post(hand, 12)
    (ack,) = hand.transmitted()
    assert (ack.psn - hand.peer_first_psn, ack["aeth"]["msn"]) == (4, 5)
    assert _delivered(hand) == [(10, 0), (11, 1), (12, 2)]
    assert hand.qp.state == QpState.RTS


def test_one_that_fills_a_hole_lets_out_those_that_have_receives() -> None:
    hand = HandPeer(CONFIG)
    _post(hand, 10)
    hand.exchange(_immediate(hand, 2, 1), _immediate(hand, 1, 0))
    answers = hand.exchange(hand.request(0, b"plain"))
    assert [ack.psn - hand.peer_first_psn for ack in of(answers, ACK)] == [1]
    assert _delivered(hand) == [(10, 1)]
    _post(hand, 11)
    assert [ack.psn - hand.peer_first_psn for ack in hand.transmitted()] == [2]


def test_a_copy_of_one_that_waits_is_answered_and_delivered_once() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(_immediate(hand, 0, 0))
    (sack,) = hand.exchange(_immediate(hand, 0, 0))
    assert (sack.opcode, sack["seth"]["cack_psn"], sack["seth"]["bitmap"]) == (SACK, hand.peer_first_psn - 1, 0b1)
    assert hand.counters["duplicates_above_epsn"] == 1
    _post(hand, 10)
    hand.transmitted()
    hand.exchange(_immediate(hand, 0, 0))
    assert _delivered(hand) == [(10, 0)]


def test_no_more_may_wait_than_were_granted() -> None:
    """Those that wait are in flight."""
    hand = HandPeer(CONFIG)
    hand.exchange(*(_immediate(hand, at, at) for at in range(4)))
    assert hand.qp.state == QpState.RTS
    (nak,) = of(hand.exchange(_immediate(hand, 4, 4)), ACK)
    assert (nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (4, INVALID)
    assert hand.qp.state == QpState.ERROR


def test_what_waits_with_a_wrong_number_is_refused_when_it_is_due() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(_immediate(hand, 0, 0), _immediate(hand, 1, 2))
    assert hand.qp.state == QpState.RTS
    _post(hand, 10)
    (nak,) = of(hand.transmitted(), ACK)
    assert (nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (1, INVALID)
    assert hand.endpoint.events[-1].detail.endswith("has RQMSN 2 where 1 is next")


def test_it_is_refused_when_none_came_in_time_and_both_numbers_are_named() -> None:
    """No receive posted, so a NAK with its PSN, and the QP in ERROR."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"plain"), _immediate(hand, 1, 0))
    began = hand.now
    assert hand.run(began + WAIT_NS - 1) == []
    (nak,) = hand.run(began + WAIT_NS)
    assert (nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (1, INVALID)
    assert hand.qp.state == QpState.ERROR
    assert "there was no receive for it within 100 ms: post as many receives as" in hand.endpoint.events[-1].detail


def test_each_receive_that_comes_gives_the_next_its_whole_time() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(*(_immediate(hand, at, at) for at in range(3)))
    for at in range(2):
        assert hand.run(hand.now + WAIT_NS - 1) == []
        _post(hand, 10 + at)
        assert [ack.psn - hand.peer_first_psn for ack in hand.transmitted()] == [at]
    assert hand.run(hand.now + WAIT_NS - 1) == []
    assert len(hand.run(hand.now + 1)) == 1
    assert hand.qp.state == QpState.ERROR
    assert hand.counters["waited_for_receive"] == 3


def test_a_wait_of_0_refuses_at_once_and_others_are_checked() -> None:
    hand = HandPeer(replace(CONFIG, responder=ResponderConfig(wait_for_receive_ns=0)))
    (nak,) = hand.exchange(_immediate(hand, 0, 0))
    assert nak["aeth"]["syndrome"] == INVALID
    for wait_ns in (-1, MOST_WAIT_FOR_RECEIVE_NS + 1):
        with pytest.raises(CallerError, match="wait_for_receive_ns must be 0"):
            ResponderConfig(wait_for_receive_ns=wait_ns)
    assert QpConfig().responder.wait_for_receive_ns == 4 * SECOND


def test_what_waits_is_forgotten_with_the_qp() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(_immediate(hand, 0, 0))
    hand.qp.to_error("enough")
    hand.transmitted()
    assert [packet for packet in hand.run(hand.now + 2 * WAIT_NS) if packet.opcode == ACK] == []
    hand.qp.post_receive(10)
    (done,) = hand.endpoint.completions
    assert (done.wr_id, done.status) == (10, WorkStatus.FLUSHED)
