# SPDX-License-Identifier: BSD-2-Clause
"""The retry budget of a PSN, and who draws on it (behaviour.md, Retry budget)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_peer import PROBE, SECOND, HandPeer, data, numbers, of
from nacking import (
    CONFIG,
    NO_BITMAP,
    NOMINAL,
    PSN_OOR_WINDOW,
    RTT,
    TRIMMED,
    TRIMMED_LASTHOP,
    nacked_again,
    send,
    trained,
)
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState


def test_the_interval_after_the_linear_retries_doubles_also_when_nacks_drew_them() -> None:
    """behaviour.md, Retry budget: "linear retries (<= 7) at that interval, then exponential".

    Two NACKs use up the linear retries; the timeouts that follow are exponential ones.
    """
    interval = 1024 << 14
    hand = trained(QpConfig(path_mtu=256, timeout=14, linear_retries=2, exponential_retries=3))
    packet = send(hand, 1)[1]
    for _ in range(2):
        packet = nacked_again(hand, 1, TRIMMED, packet)
    times = [again.at for again in data(hand.run(hand.now + 10 * SECOND))]
    assert [after - before for before, after in pairwise(times)] == [2 * interval, 4 * interval]


def test_the_budget_may_be_the_qps_and_is_whole_again_when_cack_psn_moves() -> None:
    """behaviour.md, Retry budget: "one budget for the QP, which is whole again when cack_psn moves". MRC-RETRY-10.

    Two retries for all: two PSNs take one each, cack_psn moves, and two take one each again. The next one is too many.
    """
    config = QpConfig(path_mtu=256, timeout=24, linear_retries=1, exponential_retries=1, retry_budget_per_qp=True)
    hand = trained(config)
    sent = send(hand, 30)
    first = min(sent)
    for number in (first + 5, first + 9):
        nacked_again(hand, number, TRIMMED_LASTHOP, sent[number])
    hand.receive(hand.ack(first))
    for number in (first + 6, first + 7):
        nacked_again(hand, number, TRIMMED_LASTHOP, sent[number])
    assert hand.qp.state == QpState.RTS
    hand.receive(hand.nack(first + 8, TRIMMED_LASTHOP, ev=sent[first + 8].ev))
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(1, WorkStatus.RETRY_EXCEEDED)]


def test_a_psn_that_takes_the_place_of_another_has_its_own_budget() -> None:
    """behaviour.md, Retry budget: "it belongs to a PSN". 128 PSNs are used over and over."""
    hand = trained(QpConfig(path_mtu=256, mpr=1, timeout=24, linear_retries=1, exponential_retries=0))
    for _ in range(6):
        before = send(hand, 100)
        assert len(before) == 100
        again = hand.exchange(*(hand.nack(at, TRIMMED_LASTHOP, ev=was.ev) for at, was in before.items()))
        assert numbers(hand, again) == list(before)
        hand.receive(hand.ack(max(before)))
        assert hand.qp.state == QpState.RTS


# ------------------------------------------------------------------ many NACKs


@pytest.mark.parametrize("psns", [1, 100, 128])
def test_what_is_trimmed_again_and_again_is_sent_again_each_time(psns: int) -> None:
    """wire.md 7: "retransmit". Every packet of a full window of 128 PSNs is trimmed ten times, and arrives then.

    behaviour.md, Retry budget: 14 retries a PSN by default, and these are ten.
    """
    hand = trained(QpConfig(path_mtu=256, mpr=1, timeout=20))
    out = send(hand, psns)
    assert len(out) == psns
    for _ in range(10):
        hand.now += RTT
        nacks = [hand.nack(at, TRIMMED_LASTHOP, ev=was.ev, rtx=was["bth"]["rtx"]) for at, was in out.items()]
        again = data(hand.exchange(*nacks))
        assert numbers(hand, again) == list(out)
        out = dict(zip(out, again, strict=True))
    hand.receive(hand.sack(psns))
    assert hand.completed() == [(1, WorkStatus.SUCCESS)]
    assert of(hand.run(hand.now + 10 * SECOND), PROBE) == []


def test_nacked_bytes_are_given_back_when_the_qp_ends() -> None:
    """nscc.md: a transmission is "taken off once". Some wait, some are out again, some never were NACKed."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 12)
    hand.exchange(*(hand.nack(at, TRIMMED, ev=before[at].ev) for at in (1, 5)))
    hand.receive(*(hand.nack(at, NO_BITMAP, ev=before[at].ev) for at in (2, 6)))
    hand.receive(hand.nack(8, PSN_OOR_WINDOW, ev=before[8].ev))
    assert windows.only.inflight == 9 * NOMINAL
    hand.qp.to_error("enough")
    assert windows.only.inflight == 0
    assert hand.completed() == [(0, WorkStatus.FLUSHED)]
