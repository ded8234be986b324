# SPDX-License-Identifier: BSD-2-Clause
"""The tail probe of a QP that has sent little yet: before its first packet, and before its first RTT sample."""

from __future__ import annotations

from hand_peer import MICROSECOND, PROBE, HandPeer, of

from mrc.endpoint.config import QpConfig

CONFIG = QpConfig(path_mtu=256, timeout=20)
LONG = CONFIG.local_ack_timeout_ns


def test_a_qp_that_has_sent_nothing_has_no_work() -> None:
    assert not HandPeer(CONFIG).qp.has_work()


def test_the_first_rtt_sample_says_when_an_unanswered_tail_probe_is_repeated() -> None:
    """A path timer after it was asked for, which after one sample is three times that, and not as was guessed."""
    hand = HandPeer(CONFIG)
    sent_at = hand.now
    hand.post(256 * 2)
    hand.transmitted()
    assert len(of(hand.run(hand.now + LONG, stop_at_first=True), PROBE)) == 1
    asked_at = hand.now
    hand.now += 100 * MICROSECOND
    rtt = hand.now - sent_at
    assert hand.exchange(hand.sack(0)) == []
    assert len(of(hand.run(hand.now + LONG, stop_at_first=True), PROBE)) == 1
    assert hand.now == asked_at + 3 * rtt
