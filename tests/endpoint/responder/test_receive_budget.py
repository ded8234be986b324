# SPDX-License-Identifier: BSD-2-Clause
"""What a node can hold, shared among the QPs that receive (behaviour.md, Dynamic MPR)."""

from __future__ import annotations

import pytest
from hand_peer import MILLISECOND, SECOND

from mrc.endpoint.config import ReceivingConfig
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.errors import CallerError

UNIT = 128


def test_without_a_capacity_each_qp_may_have_the_most_there_is() -> None:
    budget = ReceiveBudget(ReceivingConfig())
    for qpn in range(100):
        budget.on_requests(qpn, 0)
    assert (budget.units, budget.units_for(1000)) == (255, 255)


@pytest.mark.parametrize(("qps", "units"), [(0, 32), (1, 32), (2, 16), (3, 10), (8, 4), (32, 1), (33, 1), (1000, 1)])
def test_the_capacity_is_shared_in_whole_units_and_never_less_than_one(qps: int, units: int) -> None:
    """4,096 packets are 32 units of 128."""
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    for qpn in range(qps):
        budget.on_requests(qpn, 0)
    assert budget.units == units


def test_newcomers_count_with_those_that_receive() -> None:
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    budget.on_requests(1, 0)
    assert (budget.units_for(1), budget.units_for(3), budget.units) == (16, 8, 32)


def test_a_smaller_receive_buffer_is_the_capacity() -> None:
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    budget.set_capacity(8 * UNIT)
    assert budget.units == 8
    budget.set_capacity(1000 * UNIT)
    assert budget.units == 32


def test_a_qp_that_received_nothing_for_a_second_has_no_share() -> None:
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    budget.on_requests(1, 0)
    budget.on_requests(2, 0)
    for now in range(0, SECOND + 1, 100 * MILLISECOND):
        budget.on_requests(1, now)
    assert budget.units == 16
    budget.on_requests(1, SECOND + 125 * MILLISECOND)
    assert budget.units == 32


def test_a_qp_that_is_gone_has_none_at_once() -> None:
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    budget.on_requests(1, 0)
    budget.on_requests(2, 0)
    budget.forget(2)
    budget.forget(3)
    assert budget.units == 32


@pytest.mark.parametrize("qpn", [0, 5, 1 << 23])
def test_a_qp_that_goes_on_receiving_counts_once_and_keeps_its_share(qpn: int) -> None:
    """The first request long after the node began."""
    budget = ReceiveBudget(ReceivingConfig(most_packets=32 * UNIT))
    for now in range(10 * SECOND, 14 * SECOND, 200 * MILLISECOND):
        budget.on_requests(qpn, now)
        budget.on_requests(7, now + 1)
        assert budget.units == 16
    budget.forget(qpn)
    assert budget.units == 32


@pytest.mark.parametrize(("waiting", "penalty"), [(0, 0), (512, 0), (513, 1), (768, 64), (1023, 127), (100_000, 127)])
def test_the_penalty_rises_with_what_waits_unread(waiting: int, penalty: int) -> None:
    """From 0 at 512 packets to 127 at twice as many: 127 x 256 / 512 + 1 is 64."""
    budget = ReceiveBudget(ReceivingConfig(backlog_packets=512))
    budget.on_backlog(100_000)
    budget.on_backlog(waiting)
    assert budget.penalty == penalty


@pytest.mark.parametrize(
    "wrong", [{"most_packets": 127}, {"backlog_packets": 0}, {"active_ns": 0}], ids=lambda wrong: next(iter(wrong))
)
def test_values_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CallerError, match=next(iter(wrong))):
        ReceivingConfig(**wrong)
