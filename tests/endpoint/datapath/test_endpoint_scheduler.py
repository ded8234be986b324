# SPDX-License-Identifier: BSD-2-Clause
"""Whose turn it is to send (behaviour.md, Requestor and Congestion control)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hand_peer import MICROSECOND, PEER_QPN, SECOND, HandPeer, data, numbers
from several import CONFIG, NOMINAL, SMALL, Several
from within import SEEN_FROM_WITHIN

from mrc.endpoint.config import QpConfig
from mrc.endpoint.datapath.qp_datapath import QpDatapath
from mrc.endpoint.datapath.qps import SEND_STATES, SendState, send_state

RTT = 100 * MICROSECOND
NO_BITMAP = 0x06


# ------------------------------------------------------------------ states


@pytest.mark.parametrize(
    ("work", "may", "outstanding", "state"),
    [
        (False, False, False, SendState.IDLE),
        (False, False, True, SendState.ACTIVE),
        (True, False, False, SendState.PENDING),
        (True, False, True, SendState.PENDING),
        (True, True, False, SendState.READY),
        (True, True, True, SendState.READY),
    ],
)
def test_every_state_follows_from_work_leave_and_what_is_out(
    work: bool, may: bool, outstanding: bool, state: SendState
) -> None:
    """behaviour.md, Requestor: "Sends while inflight < cwnd, PSN <= cack_psn + window, and a path is available."

    Nothing can be sent without something to send.
    """
    assert SEND_STATES[work, may, outstanding] == state
    assert len(SEND_STATES) == 6


def test_a_qp_is_idle_then_ready_then_active_then_idle() -> None:
    """behaviour.md, Requestor: nothing posted, posted, all sent, all acknowledged."""
    hand = HandPeer(CONFIG)
    assert send_state(hand.qp.datapath) == SendState.IDLE
    hand.post(256 * 3)
    assert send_state(hand.qp.datapath) == SendState.READY
    hand.transmitted()
    assert send_state(hand.qp.datapath) == SendState.ACTIVE
    hand.receive(hand.ack(1))
    assert send_state(hand.qp.datapath) == SendState.ACTIVE
    hand.receive(hand.ack(2))
    assert send_state(hand.qp.datapath) == SendState.IDLE


def test_a_qp_whose_only_packet_waits_after_a_nack_is_not_idle() -> None:
    """behaviour.md, Requestor: "after a resource NACK one RTT": it is neither sent nor acknowledged meanwhile."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.now += RTT
    hand.receive(hand.nack(0, NO_BITMAP, ev=packet.ev))
    assert send_state(hand.qp.datapath) in (SendState.ACTIVE, SendState.PENDING)


# ------------------------------------------------------------------ fairness


@pytest.mark.parametrize("own", [True, False], ids=["own windows", "one window"])
@pytest.mark.parametrize("share", [1, 7, 16])
def test_qps_with_room_take_turns(own: bool, share: int) -> None:
    """EndpointConfig.fair_share: "Packets one QP may put into a batch before the next QP has its turn."

    behaviour.md, Congestion control: a controller "may govern several QPs". One batch, five QPs.
    """
    several = Several(5, 1 << 40, own=own, fair_share=share)
    for at in range(5):
        several.of(at).post(256 * 1000, fill=at)
    hand = several.hand
    hand.endpoint.transmit(hand.batch, hand.now)
    assert hand.batch.count == 128
    hand.endpoint.transmit(hand.batch, hand.now)  # a full batch takes nothing
    hand.batch.clear()
    sent = Counter(at for at, _ in several.sent())
    counts = [1000 - sent[at] for at in range(5)]  # what the first batch took
    assert sum(counts) == 128
    assert max(counts) - min(counts) <= share


@pytest.mark.parametrize("freed", [1, 4, 16])
def test_a_shared_window_is_shared_fairly(freed: int) -> None:
    """behaviour.md, Congestion control: a controller "belongs to a destination and may govern several QPs".

    Five QPs with more to send than the window of 50 packets holds; what was sent is acknowledged in order, `freed`
    packets at a time. Over 1,500 packets each gets its fifth, give or take a fifth of that.
    """
    several = Several(5, 50 * NOMINAL, fair_share=8, config=QpConfig(path_mtu=256, timeout=24))
    for at in range(5):
        several.of(at).post(256 * 1500, fill=at)
    out = several.sent()
    counts: Counter[int] = Counter(at for at, _ in out)
    while sum(counts.values()) < 1500:
        assert len(out) == 50
        several.hand.now += RTT // 10
        acked = dict(out[:freed])  # the last of each QP's
        del out[:freed]
        several.hand.receive(*(several.of(at).ack(number) for at, number in acked.items()))
        fresh = several.sent()
        assert len(fresh) == freed
        out += fresh
        counts.update(at for at, _ in fresh)
    fair = sum(counts.values()) / 5
    assert {at: counts[at] for at in range(5) if abs(counts[at] - fair) > fair / 5} == {}


def test_a_qp_with_little_to_send_does_not_wait_for_those_with_much() -> None:
    """behaviour.md, Congestion control: one controller "may govern several QPs"; each has its turn."""
    several = Several(4, 32 * NOMINAL, fair_share=8)
    for at in range(3):
        several.of(at).post(256 * 2000, fill=at)
    out = several.sent()
    assert len(out) == 32
    several.of(3).post(256)
    for _ in range(3 * 4):  # four packets at a time: everybody in front of it had a whole share
        several.hand.now += RTT // 10
        fresh: list[tuple[int, int]] = []
        at, number = out.pop(0)
        while out and out[0][0] == at and number - out[0][1] < 4 and len(fresh) < 3:
            fresh.append(out[0])
            number = out.pop(0)[1]
        several.hand.receive(several.of(at).ack(number))
        out += several.sent()
        if (3, 0) in out:
            return
    raise AssertionError("the packet never left")


# ------------------------------------------------------------------ no cost for the idle


@SEEN_FROM_WITHIN
def test_hundreds_of_idle_qps_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """architecture.md, State that scales: O(what happens). Posting, sending, SACKs and timers of one QP of 301."""
    hand = HandPeer(SMALL)
    busy = hand.qp
    for at in range(300):
        hand.connect(SMALL, qpn=PEER_QPN + 1 + at)
    hand.transmitted()
    touched: set[int] = set()

    def noticed(real: Callable[..., Any]) -> Callable[..., Any]:
        def called(part: QpDatapath, *arguments: Any) -> Any:
            touched.add(part.qpn)
            return real(part, *arguments)

        return called

    for name in ("doubts", "transmit", "pending", "has_work", "on_timer", "next_deadline"):
        monkeypatch.setattr(QpDatapath, name, noticed(getattr(QpDatapath, name)))
    hand.post(256 * 400, fill=7)
    sent = numbers(hand, hand.transmitted())
    hand.now += RTT
    hand.receive(hand.sack(sent[-3], above=[sent[-1]]))
    sent += numbers(hand, hand.transmitted())
    sent += numbers(hand, hand.run(hand.now + SECOND // 2))
    assert touched == {busy.qpn}


def test_the_last_packet_of_a_turn_asks_for_an_answer_while_others_wait() -> None:
    """behaviour.md, Requestor: "AckReq is set on every packet after which the sender cannot go on".

    The window holds 12: the first QP's turn of 8 ends with room left, and the other takes all of it.
    """
    several = Several(2, 12 * NOMINAL, fair_share=8)
    for at in range(2):
        several.of(at).post(256 * 40, fill=at)
    sent = data(several.hand.transmitted())
    assert [several.which(packet)[0] for packet in sent] == [0] * 8 + [1] * 4
    assert [at for at, packet in enumerate(sent) if packet["bth"]["ackreq"]] == [7, 11]
