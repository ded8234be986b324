# SPDX-License-Identifier: BSD-2-Clause
"""The longest waits there can be still fit a clock of 64 bits (mrc/endpoint/requestor/loss.py, nscc.py)."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import Nscc, NsccConfig, PacketSizes
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.requestor.loss import RetryBudget
from mrc.endpoint.requestor.sent import SentPackets

MOST = 1 << 61


@pytest.mark.parametrize(("drawn", "waits"), [(0, 1 << 38), (1, 1 << 38), (5, 1 << 39), (22, 1 << 56), (25, 1 << 59)])
def test_the_interval_of_the_last_retry_of_the_longest_timeout(drawn: int, waits: int) -> None:
    """t = 24 is 2^34 ns, and each retry doubles it; round trips longer than it make it 16 timeouts at least, 2^38."""
    sent, rtt = SentPackets(16, 0), RttEstimator()
    rtt.sample(1 << 45, 0)
    budget = RetryBudget(QpConfig(timeout=24, linear_retries=0, exponential_retries=25), sent, rtt)
    for _ in range(drawn):
        assert budget.draw(0)
    budget.watch(0, 1000)
    assert budget.next_deadline == 1000 + waits


def test_a_window_that_is_configured_beyond_all_bounds_is_one_that_can_be_counted() -> None:
    """Parameters may be given up to 2^62; what follows from line rate and base RTT is larger still."""
    config = NsccConfig(line_rate_bps=10_000_000_000_000, base_rtt=1 << 61, initial_cwnd=1 << 62, fi=1 << 62)
    controller = Nscc(PacketSizes(mtu=4200, mss=4096), config)
    assert controller.cwnd == controller.max_cwnd == MOST
    for step in range(4):
        controller.sent(4200)
        controller.removed(4200)
        controller.on_ack(step * MOST // 4, 4200, False, MOST - 1)
    assert 4200 <= controller.cwnd <= MOST
    assert 0 <= controller.inc <= MOST
