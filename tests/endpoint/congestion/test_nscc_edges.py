# SPDX-License-Identifier: BSD-2-Clause
"""The exact edges of what moves NSCC's window (nscc.md), one step to either side."""

from __future__ import annotations

import dataclasses

import pytest
from nscc_network import BASE_RTT, MTU, NETWORK, NO_AVERAGING, SIZES, TARGET, Window

from mrc.endpoint.congestion.estimates import WindowedMinimum

EARLY = 1_000


@pytest.mark.parametrize("marked", [False, True], ids=["a_delay", "a_mark_at_target"])
def test_a_fast_increase_counts_from_nothing_after_it_ended(marked: bool) -> None:
    """fi_count > cwnd: four times 5,000 is not more than 20,000, five times is. MRC-CC-13."""
    window = Window(initial_cwnd=20_000)
    window.ack(EARLY, 5_000, delay=TARGET if marked else 1_500, marked=marked)
    for _ in range(4):
        window.ack(EARLY, 5_000, delay=0)
        assert window.cwnd == 20_000
    window.ack(EARLY, 5_000, delay=0)
    assert window.cwnd == 21_250


def test_a_round_trip_of_one_nanosecond_is_a_sample_and_one_of_none_is_not() -> None:
    """ "if rtt is none or rtt <= 0: return". MRC-CC-09."""
    window = Window()
    for rtt in (0, -1, None):
        window.controller.on_ack(EARLY, 5_000, False, rtt)
        assert (window.controller.base_rtt, window.inc) == (12_000, 0)
    window.controller.on_ack(EARLY, 5_000, False, 1)
    assert window.controller.base_rtt == 1
    assert window.inc > 0


@pytest.mark.parametrize("began", [1, BASE_RTT, BASE_RTT + 1, 10**15])
@pytest.mark.parametrize(("after", "cwnd"), [(BASE_RTT, 60_000), (BASE_RTT + 1, 36_000)])
def test_a_decrease_waits_for_more_than_one_base_rtt_since_the_one_before(began: int, after: int, cwnd: int) -> None:
    """ "now - last_decrease > base_rtt", and 1 - 0.8 x 9,000 / 18,000 = 0.6. MRC-CC-07. The first waits for nothing,
    whatever the clock says."""
    window = Window(delay_average=NO_AVERAGING, eta=0)
    window.ack(began, 5_000, delay=18_000, marked=True)
    assert window.cwnd == 60_000
    window.ack(began + after, 5_000, delay=18_000, marked=True)
    assert window.cwnd == cwnd


def test_the_window_starts_at_max_cwnd_or_at_so_many_packets_whichever_is_more_or_less() -> None:
    """Known base RTT of 120 us: 1.5 x 1,500,000 bytes, more than the 128 packets of an unknown one."""
    known = dataclasses.replace(NETWORK, base_rtt=120_000, initial_cwnd=None)
    assert known.initial_cwnd_for(SIZES) == 2_250_000
    assert dataclasses.replace(known, initial_cwnd=1_000_000).initial_cwnd_for(SIZES) == 1_000_000
    assert dataclasses.replace(known, initial_cwnd=3_000_000).initial_cwnd_for(SIZES) == 2_250_000
    unknown = dataclasses.replace(known, base_rtt=None, max_cwnd=10_000_000)
    assert unknown.initial_cwnd_for(SIZES) == 128 * MTU
    assert dataclasses.replace(unknown, max_cwnd=50_000).initial_cwnd_for(SIZES) == 50_000


def test_times_derived_from_the_base_rtt_are_whole_units() -> None:
    """0.75 x 12,001 is 9,000 and 12,007 / 8 is 1,500, truncated; a target is at least one unit."""
    assert NETWORK.parameters_for(SIZES, 12_001).target == 9_000
    assert NETWORK.parameters_for(SIZES, 1).target == 1
    assert NETWORK.zero_delay_at(12_007) == 1_500
    assert NETWORK.zero_delay_at(1) == 1_000


def test_a_value_like_the_number_of_its_part_is_remembered() -> None:
    """Parts of 10: 75 lies in part 7."""
    minimum = WindowedMinimum(80)
    assert [minimum.update(now, value) for now, value in ((0, 7), (75, 9), (90, 20))] == [7, 7, 9]
