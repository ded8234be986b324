# SPDX-License-Identifier: BSD-2-Clause
"""What each of NSCC's parameters may be, and how controllers are found by name."""

from __future__ import annotations

import re

import pytest
from nscc_network import SIZES

from mrc.endpoint.congestion import (
    CongestionController,
    FixedWindow,
    FixedWindowConfig,
    NsccConfig,
    PacketSizes,
    factory_of,
    register,
    registry,
)
from mrc.endpoint.congestion.estimates import WindowedMinimum
from mrc.errors import CallerError

MOST = 1 << 62  # sums of two such numbers still fit 64 bits
# Megabits to terabits a second; a clock of a microsecond or finer; shares are 0 to 1; a window is at least a byte.
RANGES: dict[str, tuple[float, float]] = {
    "line_rate_bps": (1_000_000, 10_000_000_000_000),
    "base_rtt": (1, MOST),
    "base_rtt_samples": (1, 1_048_576),
    "ticks_per_second": (1_000_000, 1_000_000_000_000),
    "initial_cwnd": (1, MOST),
    "unmeasured_cwnd_packets": (1, 1_048_576),
    "target_delay": (1, MOST),
    "max_cwnd": (1, MOST),
    "gamma": (0, 1),
    "max_md_jump": (0, 1),
    "fi": (0, MOST),
    "fi_scale": (0, MOST),
    "eta": (0, MOST),
    "qa_gate": (0, 63),
    "qa_threshold": (0, MOST),
    "adjust_bytes_threshold": (0, MOST),
    "adjust_period_threshold": (0, MOST),
    "base_rtt_window_s": (0.001, 1_000_000_000),
    "max_cwnd_least_packets": (1, 1_048_576),
    "zero_delay": (0, MOST),
}


@pytest.mark.parametrize("name", RANGES)
def test_both_ends_of_a_range_are_allowed_and_a_step_beyond_is_refused(name: str) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(NsccConfig(**{name: value}), name) == value  # type: ignore[arg-type]
    step = 0.0005 if name == "base_rtt_window_s" else 1
    for value in (low - step, high + 1):
        with pytest.raises(CallerError, match=f"^{name} must be {re.escape(f'{low}..{high}, got {value}')}$"):
            NsccConfig(**{name: value})  # type: ignore[arg-type]


def test_an_unknown_controller_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(CallerError, match=r"no congestion controller 'swift': there are .*fixed, none, nscc"):
        factory_of("swift")


def test_a_controller_of_ones_own_is_found_by_its_name_or_given_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))  # what other tests find is as it was

    def ten_packets(sizes: PacketSizes) -> CongestionController:
        return FixedWindow(sizes, FixedWindowConfig(10))

    register("ten-packets", ten_packets)
    assert factory_of("ten-packets") is ten_packets
    assert factory_of(ten_packets) is ten_packets
    assert factory_of("ten-packets")(SIZES).cwnd == 10 * SIZES.mtu


def test_a_fixed_window_is_384_packets_unless_told_otherwise() -> None:
    """decisions.md; a packet may leave while inflight < cwnd, the last of them past the edge."""
    window = FixedWindow(PacketSizes(mtu=1_000, mss=900))
    assert (window.cwnd, window.inflight, window.may_send) == (384_000, 0, True)
    window.sent(383_999)
    assert window.may_send
    window.sent(1)
    assert not window.may_send
    window.removed(384_000)
    assert (window.inflight, window.may_send) == (0, True)


def test_a_minimum_is_told_apart_by_eighths_of_its_window() -> None:
    """A window of 80 is eight parts of 10: what came in the part that began at 20 counts until that of 110 begins."""
    minimum = WindowedMinimum(80)
    assert minimum.update(29, 5) == 5
    assert minimum.update(30, 7) == 5
    assert minimum.update(31, 6) == 5
    assert minimum.update(109, 9) == 5
    assert minimum.update(110, 9) == 6
    assert minimum.update(119, 9) == 6
    assert minimum.update(120, 9) == 9


def test_the_least_of_a_part_counts_and_an_equal_one_later_lasts_longer() -> None:
    minimum = WindowedMinimum(80)
    assert [minimum.update(now, value) for now, value in ((0, 8), (1, 5), (2, 7), (3, 6))] == [8, 5, 5, 5]
    assert minimum.update(50, 5) == 5
    assert minimum.update(139, 20) == 5
    assert minimum.update(140, 20) == 20


def test_a_window_of_less_than_eight_units_is_cut_by_units() -> None:
    minimum = WindowedMinimum(3)
    assert minimum.update(0, 5) == 5
    assert minimum.update(8, 9) == 5
    assert minimum.update(9, 9) == 9


@pytest.mark.parametrize(("first", "least"), [(9, 6), (6, 6), (3, 3)])
def test_an_initial_value_comes_with_the_first_and_ages_with_it(first: int, least: int) -> None:
    minimum = WindowedMinimum(80, initial=6)
    assert minimum.update(1_000, first) == least
    assert minimum.update(1_089, 50) == least
    assert minimum.update(1_090, 50) == 50
