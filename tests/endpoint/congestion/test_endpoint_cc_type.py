# SPDX-License-Identifier: BSD-2-Clause
"""A SACK whose cc_type is not 0: what stands where CC_STATE would be steers nothing (wire.md section 6)."""

from __future__ import annotations

from hand_peer import MICROSECOND, HandPeer
from nacking import CONFIG, NOMINAL, RTT, send, trained
from recording_window import RecordingWindows

from mrc.endpoint.config import Capability
from mrc.endpoint.congestion import PENALTY_UNKNOWN
from mrc.endpoint.requestor.acknowledgements import Sack
from mrc.wire.received_batch import ReceivedBatch


def test_each_sack_that_arrives_together_with_others_has_its_own_cc_state() -> None:
    """And one that has none leaves the penalty of the one before."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    send(hand, 6)
    hand.receive(hand.sack(1, penalty=9), hand.sack(2, penalty=5), hand.sack(4, penalty=127, cc_type=3))
    assert [call.penalty for call in windows.only.calls] == [9, 5, PENALTY_UNKNOWN]


def test_its_timestamp_is_no_service_time() -> None:
    """By hand: sent at t, acknowledged at t + 100 us; a timestamp 50 us ahead would leave 50 us."""
    for cc_type, expected in ((0, RTT // 2), (1, RTT)):
        hand = HandPeer(CONFIG, capabilities=Capability.SVC_TIME)
        hand.now = 128 * 1000 * MICROSECOND
        send(hand, 1)
        stamp = (hand.now // 128 + RTT // 2 // 128) & 0xFFFF
        hand.now += RTT
        hand.receive(hand.sack(0, timestamp=stamp, cc_type=cc_type))
        assert abs(hand.qp.requestor.rtt.srtt - expected) <= 128


def test_cc_flags_are_not_looked_at() -> None:
    """The lower half of the byte."""
    hand = trained()
    send(hand, 2)
    batch = ReceivedBatch.from_packets([hand.sack(1, penalty=7)])
    batch.data[0, 76] = 0x0F
    sack = Sack()
    assert sack.read(batch, 0, hand.qp.requestor.sent, hand.qp.counters)
    assert sack.penalty == 7
