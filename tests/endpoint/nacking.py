# SPDX-License-Identifier: BSD-2-Clause
"""Reasons of NACKs, and a QP that is sent them (wire.md 7)."""

from __future__ import annotations

from hand_peer import MICROSECOND, HandPeer, Sent, data, numbers

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.paths.states import EvState

TRIMMED, TRIMMED_LASTHOP = 0x01, 0x02
NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE = 0x06, 0x07, 0x0A
PSN_OOR_WINDOW, UNEXP_EVENT = 0x0B, 0x19
TRIMS = (TRIMMED, TRIMMED_LASTHOP)
RESOURCES = (NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE)
RETRIED = (*TRIMS, *RESOURCES, PSN_OOR_WINDOW)
RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
# UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, payload 256, ICRC 4, and 40 for IPv6.
NOMINAL = 8 + 12 + 4 + 4 + 16 + 256 + 4 + 40


def trained(config: QpConfig = CONFIG, **others: object) -> HandPeer:
    """A QP with one packet sent and acknowledged: number 0, which took one RTT."""
    hand = HandPeer(config, **others)  # type: ignore[arg-type]
    hand.post(256)
    hand.transmitted()
    hand.now += RTT
    hand.receive(hand.sack(0))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    return hand


def send(hand: HandPeer, count: int) -> dict[int, Sent]:
    """A write of `count` packets; what was sent, by number."""
    hand.post(256 * count)
    sent = data(hand.transmitted())
    return dict(zip(numbers(hand, sent), sent, strict=True))


def nacked_again(hand: HandPeer, number: int, reason: int, before: Sent) -> Sent:
    """NACK this transmission; the next one of the same packet."""
    sent = data(hand.exchange(hand.nack(number, reason, ev=before.ev, rtx=before["bth"]["rtx"])))
    if reason == PSN_OOR_WINDOW and number > 0:
        hand.receive(hand.ack(number - 1))  # it is the oldest now and fits any window
    while not sent:
        deadline = hand.endpoint.next_deadline()
        assert deadline is not None
        sent = data(hand.run(deadline))
    (packet,) = sent
    assert numbers(hand, sent) == [number]
    return packet


def state_of(hand: HandPeer, ev: int) -> EvState:
    assert hand.qp.paths is not None
    return EvState(int(hand.qp.paths.state[hand.qp.paths.index(ev)]))
