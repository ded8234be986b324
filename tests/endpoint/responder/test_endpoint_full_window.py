# SPDX-License-Identifier: BSD-2-Clause
"""Local ACK timeouts of a requestor whose window is full of packets that nobody answers (behaviour.md, Retry budget).

NSCC takes each lost packet off its window, so that the loss of the oldest one makes no room.
"""

from __future__ import annotations

import pytest
from hand_peer import HandPeer, data, numbers
from nacking import NOMINAL, UNEXP_EVENT, send, trained
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import Configured, Nscc
from mrc.endpoint.congestion.nscc_config import NsccConfig
from mrc.endpoint.qp_states import QpState

INTERVAL = 1024 << 14
CONFIG = QpConfig(path_mtu=256, timeout=14, linear_retries=7)


def _full(packets: int) -> HandPeer:
    """A window of so many packets, all of it in use, and two packets that wait for it."""
    hand = HandPeer(CONFIG, controller=Configured(Nscc, NsccConfig(initial_cwnd=packets * NOMINAL)))
    hand.post(256 * (packets + 2))
    assert numbers(hand, data(hand.transmitted())) == list(range(packets))
    return hand


def _sent_by(hand: HandPeer, until: int) -> list[int]:
    return numbers(hand, data(hand.run(until)))


@pytest.mark.parametrize("packets", [2, 4, 40])
def test_a_full_window_that_nobody_answers_does_not_keep_the_oldest_packet_from_leaving(packets: int) -> None:
    """The first timeout takes the oldest packet for lost. By the second all others are; it leaves then, and at each
    timeout after that."""
    hand = _full(packets)
    started = hand.now
    assert _sent_by(hand, started + 2 * INTERVAL - 1) == []
    for timeouts in range(2, 8):
        assert _sent_by(hand, started + timeouts * INTERVAL) == [0]
        assert hand.qp.outstanding == 1
    assert hand.counters["local_ack_timeouts"] == 7


def test_a_peer_in_error_is_asked_with_a_request() -> None:
    """It answers no probe. Its answer to a request ends the QP, however large the budget is."""
    hand = _full(4)
    assert _sent_by(hand, hand.now + 2 * INTERVAL) == [0]
    hand.receive(hand.nack(0, UNEXP_EVENT, rtx=1))
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(0, WorkStatus.REMOTE_OPERATION_ERROR)]


def test_a_peer_that_was_silent_for_one_timeout_finds_the_window_as_it_was() -> None:
    """What was late was not lost."""
    hand = _full(4)
    assert _sent_by(hand, hand.now + 2 * INTERVAL - 1) == []
    assert numbers(hand, data(hand.exchange(hand.ack(3)))) == [4, 5]
    assert "retransmitted_packets" not in hand.counters


def test_what_has_not_waited_for_a_timeout_is_not_lost_with_the_oldest() -> None:
    """The oldest packet, 1, is lost by a hole just before its timer runs out, when later ones fill the window."""
    windows = RecordingWindows(1 << 30)
    hand = trained(CONFIG, controller=windows)
    started = hand.now
    send(hand, 6)
    assert _sent_by(hand, started + INTERVAL * 8 // 10) == []
    send(hand, 4)
    assert _sent_by(hand, started + INTERVAL * 9 // 10) == []
    windows.only.become(4 * NOMINAL)
    assert data(hand.exchange(hand.sack(0, above=range(2, 7), trigger=6, rtx=1))) == []
    assert _sent_by(hand, started + INTERVAL) == []
    assert (hand.counters["local_ack_timeouts"], hand.qp.outstanding) == (1, 4)
    assert _sent_by(hand, started + 2 * INTERVAL) == [1, 7, 8, 9]


def test_what_was_sent_before_the_peer_was_heard_again_has_waited_since_then() -> None:
    """An old ACK half an interval before the second timeout: the third one makes room."""
    hand = trained(CONFIG, controller=Configured(Nscc, NsccConfig(initial_cwnd=4 * NOMINAL)))
    started = hand.now
    sent = send(hand, 100)
    assert _sent_by(hand, started + INTERVAL * 3 // 2) == []
    hand.receive(hand.ack(-1))
    assert _sent_by(hand, started + 3 * INTERVAL - 1) == []
    assert hand.qp.outstanding == len(sent) - 1 > 2
    assert _sent_by(hand, started + 3 * INTERVAL) == [1]
