# SPDX-License-Identifier: BSD-2-Clause
"""How long a silent peer is waited for (behaviour.md, Retry budget), worked out by hand from the retries."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.requestor.loss import RetryBudget
from mrc.endpoint.requestor.sent import SentPackets

MS = 1_000_000
TIMEOUT = 1024 << 14  # 16.8 ms
RETRIES = [  # linear, exponential, of timeouts, and the intervals they make, in timeouts
    (7, 7, None, 8 + 2 + 4 + 8 + 16 + 32 + 64 + 128),
    (7, 24, 13, 8 + 2 + 4 + 8 + 16 + 32 + 64),
    (0, 0, None, 1),
    (2, 1, None, 3 + 2),
    (3, 25, 5, 4 + 2 + 4),
    (7, 7, 3, 4),
    (0, 3, 0, 1),
]


def _config(linear: int, exponential: int, of_timeouts: int | None) -> QpConfig:
    return QpConfig(linear_retries=linear, exponential_retries=exponential, timeout_retries=of_timeouts)


@pytest.mark.parametrize(("linear", "exponential", "of_timeouts", "intervals"), RETRIES)
def test_it_is_what_the_intervals_make(linear: int, exponential: int, of_timeouts: int | None, intervals: int) -> None:
    config = _config(linear, exponential, of_timeouts)
    assert config.gives_up_after_ns == intervals * TIMEOUT
    assert _silence(config, RttEstimator(), 0) == intervals * TIMEOUT


def test_for_ever_is_for_ever() -> None:
    assert QpConfig(exponential_retries=25).gives_up_after_ns is None


@pytest.mark.parametrize("rtt_ms", [1, 10, 100, 1_000, 100_000])
@pytest.mark.parametrize(("linear", "exponential", "of_timeouts", "intervals"), RETRIES)
def test_long_round_trips_do_not_make_it_longer(
    linear: int, exponential: int, of_timeouts: int | None, intervals: int, rtt_ms: int
) -> None:
    """Unless the budget is less than 32 timeouts."""
    rtt = RttEstimator()
    rtt.sample(rtt_ms * MS, 0)
    silence = _silence(_config(linear, exponential, of_timeouts), rtt, 0)
    assert silence <= max(intervals, 32) * TIMEOUT
    assert silence >= min(intervals, 1) * TIMEOUT


@pytest.mark.parametrize("late_ms", [1, 100, 10_000, 120_000])
def test_a_timer_that_is_looked_at_late_uses_up_its_own_interval_only(late_ms: int) -> None:
    """This end stood still: what its peer may have sent meanwhile was never asked for."""
    config = QpConfig()
    assert _silence(config, RttEstimator(), late_ms * MS) == (8 + 254) * TIMEOUT + late_ms * MS


def _silence(config: QpConfig, rtt: RttEstimator, late: int) -> int:
    """How long it takes until the budget of a PSN is gone. The third interval is noticed `late` ns after its end."""
    budget, now = RetryBudget(config, SentPackets(16, 0), rtt), 5
    budget.watch(0, now)
    for turn in range(1000):
        now = budget.next_deadline + (late if turn == 2 else 0)
        assert budget.expired(now)
        if not budget.draw_for_timeout(0):
            return now - 5
        budget.wait_again(now)
        assert budget.next_deadline > now, "a timer is due again at once"
    raise AssertionError("it never ends")
