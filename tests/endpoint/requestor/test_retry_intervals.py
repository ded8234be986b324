# SPDX-License-Identifier: BSD-2-Clause
"""How long each retry waits, and what draws on the budget (behaviour.md, Retry budget)."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.requestor.loss import RetryBudget
from mrc.endpoint.requestor.sent import SentPackets

FIRST, START = 100, 5


def _budget(**settings: object) -> RetryBudget:
    config = QpConfig(**{"timeout": 4, "linear_retries": 2, "exponential_retries": 3, **settings})  # type: ignore[arg-type]
    return RetryBudget(config, SentPackets(16, FIRST), RttEstimator())


def test_linear_retries_then_ones_that_double() -> None:
    """The local ACK timeout is 1.024 us x 2^t; behaviour.md, Retry budget: "There are linear retries (<= 7) at that
    interval, then exponential ones"."""
    budget, now, waits = _budget(), START, []
    budget.watch(FIRST, now)
    while True:
        due = budget.next_deadline
        waits.append((due - now) / (1024 << 4))
        now = due
        if not budget.draw_for_timeout(FIRST):
            break
        budget.wait_again(now)
    assert waits == [1, 1, 1, 2, 4, 8]


@pytest.mark.parametrize("per_qp", [False, True])
def test_the_budget_is_a_psns_or_by_a_switch_the_qps(per_qp: bool) -> None:
    """behaviour.md, Retry budget: "it belongs to a PSN"."""
    budget = _budget(retry_budget_per_qp=per_qp)
    budget.watch(FIRST, START)
    drawn = [budget.draw(FIRST + number % 2) for number in range(10)]
    assert drawn == [True] * 5 + [False] * 5 if per_qp else drawn == [True] * 10
    assert [budget.spent(FIRST + number) for number in (0, 1)] == ([10, 10] if per_qp else [5, 5])
    # Whole again when another PSN is the oldest.
    budget.watch(FIRST + 2, START)
    assert budget.spent(FIRST + 2) == 0
    assert [budget.draw(FIRST + 2) for _ in range(6)] == [True] * 5 + [False]


def test_where_timeouts_have_their_own_part_they_alone_count() -> None:
    budget = _budget(timeout_retries=3)
    budget.watch(FIRST, START)
    for _ in range(4):
        assert budget.draw(FIRST)
    budget.wait_again(START)
    assert budget.next_deadline - START == 1024 << 4


def test_the_budget_of_a_qp_is_whole_in_the_beginning() -> None:
    budget = _budget(retry_budget_per_qp=True)
    assert budget.spent(FIRST) == 0


def test_few_retries_are_good_for_32_timeouts_where_round_trips_are_long() -> None:
    """behaviour.md, Retry budget: "Where that is less than 32 timeouts, long round trips take up to 32"."""
    assert _budget(linear_retries=0, exponential_retries=0).waits_at_most == 32 * (1024 << 4)


@pytest.mark.parametrize("per_qp", [False, True])
def test_a_peer_that_holds_an_acknowledgement_back_draws_on_nothing(per_qp: bool) -> None:
    budget = _budget(retry_budget_per_qp=per_qp)
    budget.watch(FIRST, START)
    for _ in range(5):
        assert budget.draw(FIRST)
    assert budget.wait_on(START, heard=True)
    assert budget.spent(FIRST) == 0
    assert budget.next_deadline == START + (1024 << 4)
    assert [budget.draw(FIRST) for _ in range(6)] == [True] * 5 + [False]
