# SPDX-License-Identifier: BSD-2-Clause
"""The reorder guard as it adapts, and losses that prove spurious (behaviour.md, Requestor and Paths)."""

from __future__ import annotations

from hand_peer import MICROSECOND, HandPeer, Sent, data, numbers
from recording_window import RecordingWindows

from mrc.endpoint.config import QpConfig
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState

RTT = 100 * MICROSECOND
ENDURE = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
TRIMMED = 0x01


def _send(hand: HandPeer, count: int = 1) -> list[Sent]:
    hand.post(256 * count)
    return data(hand.transmitted())


def _trained(config: QpConfig = ENDURE, rtt: int = RTT, **others: object) -> HandPeer:
    """One packet sent and acknowledged after `rtt`: srtt is rtt, rttvar half of it."""
    hand = HandPeer(config, **others)  # type: ignore[arg-type]
    _send(hand)
    hand.now += rtt
    hand.receive(hand.sack(0))
    hand.completed()
    return hand


def _state(hand: HandPeer, ev: int) -> EvState:
    assert hand.qp.paths is not None
    return EvState(int(hand.qp.paths.state[hand.qp.paths.index(ev)]))


def _ev_lost(hand: HandPeer, ev: int) -> int:
    assert hand.qp.paths is not None
    return int(hand.qp.paths.lost[hand.qp.paths.index(ev)])


def test_a_trimmed_packet_that_arrives_after_all_takes_no_loss_back() -> None:
    """behaviour.md, Paths: only "a packet lost untrimmed" is a loss of its EV; there is none to undo."""
    windows = RecordingWindows(1 << 30)
    hand = _trained(controller=windows)
    (packet,) = _send(hand)
    windows.only.become(0)
    hand.receive(hand.nack(1, TRIMMED, ev=packet.ev))
    assert _ev_lost(hand, packet.ev) == 0
    hand.receive(hand.ack(1))
    assert _ev_lost(hand, packet.ev) == 0
    assert hand.qp.requestor.loss.guard() == RTT // 4


def test_the_ev_whose_loss_proved_spurious_is_restored_though_the_retransmission_was_trimmed() -> None:
    """behaviour.md, Paths: "the loss that condemned it proves spurious | GOOD".

    Packet 9 is late on its EV, which is condemned; its retransmission is trimmed on another, sent a third time, and
    then the original arrives. Round trips of every EV are known.
    """
    hand = _trained()
    for packet in _send(hand, 8):
        hand.now += RTT
        hand.receive(hand.sack(numbers(hand, [packet])[0], ev=packet.ev))
    sent = []
    for _ in range(8):
        sent += _send(hand)
        hand.now += 10 * MICROSECOND
    hand.now += 30 * MICROSECOND
    (second,) = data(hand.exchange(hand.sack(8, above=range(10, 17), trigger=16, ev=sent[7].ev)))
    assert _state(hand, sent[0].ev) == EvState.ASSUMED_BAD
    hand.now += 20 * MICROSECOND
    (third,) = data(hand.exchange(hand.nack(9, TRIMMED, ev=second.ev, rtx=1)))
    hand.now += 10 * MICROSECOND
    hand.receive(hand.sack(16, trigger=9, ev=sent[0].ev))
    assert _state(hand, sent[0].ev) == EvState.GOOD
    assert [_ev_lost(hand, one.ev) for one in (sent[0], second, third)] == [0, 0, 0]
    assert hand.qp.state == QpState.RTS
