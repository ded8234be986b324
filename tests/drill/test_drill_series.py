# SPDX-License-Identifier: BSD-2-Clause
"""What is read off bytes over time, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import MS, S, at, series

from mrc.drill.series import ByteSeries
from mrc.errors import CallerError


def test_a_rate_is_bits_over_time_whatever_the_samples() -> None:
    # 1,000,000 bytes in the first second, 250,000 in the second.
    found = ByteSeries([0, S, 2 * S], [0, 1_000_000, 1_250_000])
    assert found.rate_bps(0, S) == 8_000_000
    assert found.rate_bps(S, 2 * S) == 2_000_000
    assert found.rate_bps(S // 2, 3 * S // 2) == pytest.approx((500_000 + 125_000) * 8)
    with pytest.raises(CallerError, match="no rate over an interval"):
        found.rate_bps(S, S)


def test_rates_in_bins_leave_out_a_rest() -> None:
    middles, rates = series([(1.0, 80.0), (2.0, 40.0)]).rates_bps(at(0), at(1.95), 500 * MS)
    assert middles.tolist() == [at(0.25), at(0.75), at(1.25)]
    assert rates / 1e6 == pytest.approx([80, 80, 40], rel=1e-3)


def test_a_rate_is_reached_where_the_first_interval_at_it_begins() -> None:
    # Nothing for 70 ms, then 100 Mbit/s.
    found = series([(1.0, 100.0), (1.07, 0.0), (2.0, 100.0)])
    assert found.reached_after_ns(at(1.0), at(2.0), 95e6, 50 * MS) == pytest.approx(67.5 * MS, abs=1.5 * MS)
    assert found.reached_after_ns(at(1.2), at(2.0), 95e6, 50 * MS) == 0
    assert found.reached_after_ns(at(1.0), at(2.0), 101e6, 50 * MS) is None
    # An interval that does not fit before the end does not count.
    assert found.reached_after_ns(at(1.0), at(1.08), 95e6, 50 * MS) is None


def test_the_longest_stall_is_cut_off_at_both_edges() -> None:
    found = series([(1.0, 100.0), (1.3, 0.0), (2.0, 100.0), (2.2, 0.0)])
    assert found.longest_stall_ns(at(0.5), at(2.1)) == pytest.approx(301 * MS, abs=MS)
    assert found.longest_stall_ns(at(1.1), at(1.9)) == pytest.approx(201 * MS, abs=MS)
    assert found.longest_stall_ns(at(1.9), at(2.2)) == pytest.approx(200 * MS, abs=MS)
    assert found.longest_stall_ns(at(1.05), at(1.15)) == 100 * MS
    # Bytes come with every sample: nothing is longer than the distance of two.
    assert found.longest_stall_ns(at(0.1), at(0.9)) == MS


def test_counts_between_samples_are_in_proportion() -> None:
    assert ByteSeries([0, 10], [0, 100]).bytes_at(np.array([2.5])).tolist() == [25]


@pytest.mark.parametrize(("times", "totals"), [([], []), ([1], [1]), ([1, 2], [1])])
def test_a_series_needs_samples(times: list[int], totals: list[int]) -> None:
    with pytest.raises(CallerError, match="two samples or more"):
        ByteSeries(times, totals)
