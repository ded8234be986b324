# SPDX-License-Identifier: BSD-2-Clause
"""A packet that a full last hop trims again and again, in a transfer and in a drill (behaviour.md, Retry budget)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import MILLISECOND, SECOND
from nacking import TRIMMED, nacked_again, send, trained

from mrc.drill.ends import tuning
from mrc.endpoint.config import MAX_TIMEOUT_RETRIES, QpConfig
from mrc.errors import CallerError
from mrc.net.tuning import transfer_config

TRANSFER = transfer_config(path_mtu=256)


@pytest.mark.parametrize("config", [TRANSFER, tuning()], ids=["transfer", "drill"])
def test_a_packet_trimmed_again_and_again_does_not_end_a_flow(config: QpConfig) -> None:
    """NACKs that name a PSN draw on its budget, and in 25 incasts of 7 to 1, where the last hop trims a third of all
    packets, two of some 60,000 PSNs were trimmed eleven times in a row. One time more than 31 is too much."""
    hand = trained(config)
    latest = send(hand, 2)[1]
    for _ in range(31):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    assert hand.qp.error is None
    assert hand.counters["losses_by_nack"] == 31
    hand.receive(hand.nack(1, TRIMMED, ev=latest.ev, rtx=1))
    assert str(hand.qp.error).endswith("after 31 retries, then NACK TRIMMED")


def test_a_peer_that_is_gone_is_given_up_as_soon_as_ever() -> None:
    """134 ms eight times, then 268 ms doubled five times more: 17.98 s, with thirteen retries."""
    hand = trained(TRANSFER)
    send(hand, 2)
    started = hand.now
    hand.run(started + 17_900 * MILLISECOND)
    assert hand.qp.error is None
    hand.run(started + 18_000 * MILLISECOND)
    assert str(hand.qp.error).endswith("after 13 retries, then a local ACK timeout")


def test_what_was_trimmed_often_does_not_wait_longer_for_a_peer_that_is_gone() -> None:
    """Fifteen trims before it would double the timeout eight times, to half a minute."""
    hand = trained(TRANSFER)
    latest = send(hand, 2)[1]
    for _ in range(15):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    started = hand.now
    hand.run(started + 17_700 * MILLISECOND)
    assert hand.qp.error is None
    hand.run(started + 18 * SECOND)
    assert str(hand.qp.error).endswith("after 28 retries, then a local ACK timeout")


def test_what_was_trimmed_often_waits_no_longer_where_retries_have_no_end() -> None:
    """One budget for both would double the timeout 25 times, to 52 days."""
    hand = trained(replace(TRANSFER, exponential_retries=25, timeout_retries=MAX_TIMEOUT_RETRIES))
    latest = send(hand, 2)[1]
    for _ in range(40):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    started = hand.now
    hand.run(started + 550 * MILLISECOND)
    assert hand.counters["local_ack_timeouts"] == 4
    hand.run(started + 60 * SECOND)
    assert hand.qp.error is None


def test_timeouts_have_all_of_the_budget_where_nothing_else_is_said() -> None:
    """behaviour.md: one budget. NACKs and timeouts together are three, and the interval doubles after one linear."""
    hand = trained(QpConfig(path_mtu=256, timeout=17, linear_retries=1, exponential_retries=2))
    latest = send(hand, 2)[1]
    for _ in range(2):
        latest = nacked_again(hand, 1, TRIMMED, latest)
    started = hand.now
    hand.run(started + SECOND)
    assert str(hand.qp.error).endswith("after 3 retries, then a local ACK timeout")
    # What was left of the first interval, which the NACKs did not touch; then 2^2 times 134 ms.
    assert hand.endpoint.events[0].at_ns - started <= (1 + 4) * (1024 << 17)


def test_a_part_of_the_budget_below_none_is_refused() -> None:
    with pytest.raises(CallerError, match="timeout_retries cannot be negative, got -1"):
        QpConfig(timeout_retries=-1)
    with pytest.raises(CallerError, match="timeout_retries must be at most"):
        QpConfig(timeout_retries=MAX_TIMEOUT_RETRIES + 1)
