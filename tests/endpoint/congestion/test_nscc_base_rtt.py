# SPDX-License-Identifier: BSD-2-Clause
"""What NSCC derives from line rate and base RTT, what it does before it knows one, and when that changes."""

from __future__ import annotations

import dataclasses

import pytest
from nscc_network import BASE_RTT, MAX_CWND, MTU, NETWORK, SIZES, TARGET, Window

from mrc.endpoint.congestion import (
    Configured,
    EwmaDelay,
    FixedWindow,
    FixedWindowConfig,
    Nscc,
    NsccConfig,
    NsccParameters,
    factory_of,
)
from mrc.endpoint.congestion.estimates import WindowedMinimum
from mrc.errors import CallerError

SECOND = 1_000_000_000
UNMEASURED = dataclasses.replace(NETWORK, base_rtt=None, initial_cwnd=None)


# ------------------------------------------------------------------ defaults


def test_the_defaults_follow_from_line_rate_and_base_rtt_with_trimming() -> None:
    """MRC-CC-28, MRC-CC-29, MRC-CC-31, MRC-CC-32, MRC-CC-33."""
    assert NETWORK.parameters_for(SIZES, BASE_RTT) == NsccParameters(
        target=9_000,
        alpha=1.5,
        fi=22_500,
        fi_scale=0.25,
        eta=675,
        qa_threshold=None,
        adjust_bytes=40_000,
        adjust_period=12_000,
    )
    assert NETWORK.max_cwnd_for(SIZES, BASE_RTT) == MAX_CWND


def test_the_defaults_follow_from_line_rate_and_base_rtt_without_trimming() -> None:
    """MRC-CC-28, MRC-CC-29, MRC-CC-31, MRC-CC-32, MRC-CC-33."""
    config = dataclasses.replace(NETWORK, trimming=False)
    # Twice the base RTT: a = 2, target 24 us.
    assert config.parameters_for(SIZES, 2 * BASE_RTT) == NsccParameters(
        target=24_000,
        alpha=3,
        fi=45_000,
        fi_scale=0.5,
        eta=1_350,
        qa_threshold=96_000,
        adjust_bytes=40_000,
        adjust_period=24_000,
    )
    assert config.max_cwnd_for(SIZES, 2 * BASE_RTT) == 2 * MAX_CWND


def test_what_is_configured_replaces_what_would_be_derived() -> None:
    config = NsccConfig(
        target_delay=5_000,
        max_cwnd=77_777,
        fi=1,
        fi_scale=2,
        eta=3,
        qa_threshold=4,
        adjust_bytes_threshold=5,
        adjust_period_threshold=6,
    )
    parameters = config.parameters_for(SIZES, BASE_RTT)
    # a = 0.1: alpha is derived all the same, 4 x 0.1 x 4,500 / 12,000.
    assert parameters == NsccParameters(5_000, pytest.approx(0.15), 1, 2, 3, 4, 5, 6)  # type: ignore[arg-type]
    assert config.max_cwnd_for(SIZES, BASE_RTT) == 77_777


def test_the_window_starts_at_max_cwnd_when_the_base_rtt_is_configured() -> None:
    """MRC-CC-29."""
    assert Nscc(SIZES, dataclasses.replace(NETWORK, initial_cwnd=None)).cwnd == MAX_CWND


@pytest.mark.parametrize(("initial", "cwnd"), [(1, MTU), (60_000, 60_000), (1 << 40, MAX_CWND)])
def test_a_configured_initial_window_is_kept_within_its_bounds(initial: int, cwnd: int) -> None:
    assert Nscc(SIZES, dataclasses.replace(NETWORK, initial_cwnd=initial)).cwnd == cwnd


# ------------------------------------------------------------------ base_rtt moves


def test_a_lower_base_rtt_recomputes_max_cwnd_clamps_the_window_and_leaves_the_rest() -> None:
    """MRC-CC-22."""
    window = Window(initial_cwnd=MAX_CWND)
    before = window.controller.parameters
    window.controller.on_ack(1_000, 5_000, True, 8_000)
    assert (window.controller.base_rtt, window.controller.max_cwnd, window.cwnd) == (8_000, 150_000, 150_000)
    assert window.controller.parameters is before


def test_a_round_trip_measured_without_data_moves_base_rtt_and_nothing_else() -> None:
    window = Window()
    window.controller.on_rtt(1_000, 8_000)
    window.controller.on_rtt(1_000, 50_000)
    window.controller.on_rtt(1_000, 0)
    assert (window.controller.base_rtt, window.cwnd, window.inc, window.controller.avg_delay) == (8_000, 100_000, 0, 0)


def test_max_cwnd_is_at_least_two_packets_after_a_freak_sample() -> None:
    """MRC-CC-24."""
    window = Window()
    window.controller.on_rtt(1_000, 1)
    assert (window.controller.max_cwnd, window.cwnd) == (2 * MTU, 2 * MTU)


def test_a_freak_sample_is_forgotten_after_ten_seconds_and_an_eighth() -> None:
    """MRC-CC-23."""
    window = Window()
    window.controller.on_rtt(1, 1)
    for now in range(SECOND, 13 * SECOND, SECOND):
        window.controller.on_ack(now, 5_000, False, BASE_RTT)
    assert (window.controller.base_rtt, window.controller.max_cwnd) == (BASE_RTT, MAX_CWND)


def test_a_configured_max_cwnd_stays_when_base_rtt_falls() -> None:
    window = Window(max_cwnd=120_000)
    window.controller.on_rtt(1_000, 1)
    assert (window.controller.max_cwnd, window.cwnd) == (120_000, 100_000)


def test_a_minimum_lasts_for_its_window_and_at_most_an_eighth_longer() -> None:
    minimum = WindowedMinimum(8_000, initial=50)
    assert minimum.update(100, 80) == 50
    assert minimum.update(4_000, 60) == 50
    assert minimum.update(5_000, 70) == 50
    assert minimum.update(8_100, 90) == 50
    assert minimum.update(9_000, 90) == 60
    assert minimum.update(9_500, 65) == 60
    assert minimum.update(13_000, 99) == 65
    assert minimum.update(100_000, 120) == 120
    assert minimum.update(100_000, 20) == 20


def test_a_minimum_without_a_window_lasts() -> None:
    minimum = WindowedMinimum(None)
    assert [minimum.update(now, value) for now, value in ((0, 9), (1, 5), (1 << 60, 7))] == [9, 5, 5]


# ------------------------------------------------------------------ nothing known at the start


def test_without_a_base_rtt_the_window_starts_at_so_many_packets() -> None:
    controller = Nscc(SIZES)
    assert (controller.cwnd, controller.max_cwnd, controller.base_rtt) == (128 * MTU, 128 * MTU, None)


def test_before_the_first_sample_only_losses_and_nacks_move_the_window() -> None:
    controller = Nscc(SIZES, UNMEASURED)
    controller.on_ack(50_000, 5_000, True, None)
    controller.on_loss(50_000, 5_000)
    controller.on_nack(50_000, 5_000, True)
    assert (controller.cwnd, controller.inc, controller.parameters) == (126 * MTU, 0, None)


def test_the_first_sample_brings_the_parameters_and_max_cwnd() -> None:
    controller = Nscc(SIZES, UNMEASURED)
    controller.on_ack(1_000, 5_000, False, BASE_RTT)
    assert controller.parameters == NETWORK.parameters_for(SIZES, BASE_RTT)
    assert (controller.base_rtt, controller.max_cwnd, controller.cwnd) == (BASE_RTT, MAX_CWND, MAX_CWND)
    assert controller.inc == 1.5 * 5_000 * TARGET


def test_a_window_below_the_measured_max_cwnd_grows_from_where_it_is() -> None:
    controller = Nscc(SIZES, dataclasses.replace(UNMEASURED, unmeasured_cwnd_packets=10))
    controller.on_ack(1_000, 5_000, False, BASE_RTT)
    assert (controller.max_cwnd, controller.cwnd) == (MAX_CWND, 10 * MTU)


def test_an_ev_probe_may_bring_the_first_sample() -> None:
    controller = Nscc(SIZES, UNMEASURED)
    controller.on_rtt(1_000, BASE_RTT)
    assert controller.parameters == NETWORK.parameters_for(SIZES, BASE_RTT)


def test_a_base_rtt_probed_before_the_first_packet_gives_the_first_window() -> None:
    """nscc.md: initial cwnd 1.5 BDP, here more than the 128 packets of an unknown one; not once data is under way.
    MRC-CC-29, MRC-CC-34."""
    controller = Nscc(SIZES, UNMEASURED)
    for rtt in (200_000, 120_000):
        controller.on_rtt(1_000, rtt)
    assert (controller.cwnd, controller.max_cwnd) == (2_250_000, 2_250_000)
    controller.sent(MTU)
    controller.on_loss(2_000, MTU)
    controller.on_rtt(3_000, 130_000)
    assert controller.cwnd == 2_250_000 - MTU


def test_the_parameters_follow_base_rtt_for_the_first_samples_only() -> None:
    controller = Nscc(SIZES, dataclasses.replace(UNMEASURED, base_rtt_samples=3))
    for now, rtt in enumerate((40_000, 30_000, 20_000, 10_000), 1):
        controller.on_ack(now, 5_000, False, rtt)
    assert controller.parameters == NETWORK.parameters_for(SIZES, 20_000)
    assert (controller.base_rtt, controller.max_cwnd) == (10_000, NETWORK.max_cwnd_for(SIZES, 10_000))


# ------------------------------------------------------------------ by name, by configuration


@pytest.mark.parametrize("name", ["nscc", "uet-1.0-nscc"])
def test_it_is_known_by_name(name: str) -> None:
    assert isinstance(factory_of(name)(SIZES), Nscc)


def test_factories_of_equal_configurations_are_equal() -> None:
    assert Configured(Nscc, NsccConfig(gamma=0.5)) == Configured(Nscc, NsccConfig(gamma=0.5))
    assert (
        len({Configured(Nscc, NsccConfig()), Configured(Nscc, NsccConfig()), Configured(Nscc, NsccConfig(gamma=0.5))})
        == 2
    )
    assert Configured(Nscc, NETWORK)(SIZES).cwnd == 100_000


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("line_rate_bps", 0, "1000000..10000000000000"),
        ("base_rtt", 0, "1.."),
        ("base_rtt_samples", 0, "1..1048576"),
        ("unmeasured_cwnd_packets", 0, "1..1048576"),
        ("target_delay", 0, "1.."),
        ("max_cwnd", 0, "1.."),
        ("initial_cwnd", 0, "1.."),
        ("gamma", 1.01, "0..1"),
        ("gamma", float("nan"), "0..1"),
        ("max_md_jump", -0.1, "0..1"),
        ("fi", -1, "0.."),
        ("fi_scale", float("inf"), "0.."),
        ("eta", -1, "0.."),
        ("qa_gate", 64, "0..63"),
        ("qa_threshold", -1, "0.."),
        ("adjust_bytes_threshold", -1, "0.."),
        ("adjust_period_threshold", -1, "0.."),
        ("base_rtt_window_s", 0, "0.001..1000000000"),
        ("max_cwnd_least_packets", 0, "1..1048576"),
        ("zero_delay", -1, "0.."),
        ("ticks_per_second", 1_000, "1000000..1000000000000"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(name: str, value: float, allowed: str) -> None:
    with pytest.raises(CallerError, match=rf"^{name} must be {allowed}.*, got {value}$"):
        NsccConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0, -0.5, 1.5])
def test_the_weight_of_a_delay_sample_has_its_range(weight: float) -> None:
    with pytest.raises(CallerError, match="above 0 and at most 1"):
        EwmaDelay(weight)


def test_the_default_average_is_of_the_samples_alone() -> None:
    average = EwmaDelay(0.25)
    for delay in (1_000, 2_001):
        average.on_delay(delay, marked=False, target=1, base_rtt=1)
    average.on_trimmed()
    assert average.value == 687  # 250, then 250 x 0.75 + 500.25, truncated
    assert average.without_sample() is None


def test_a_fixed_window_learns_nothing_from_round_trips() -> None:
    controller = FixedWindow(SIZES, FixedWindowConfig(10))
    controller.on_rtt(1, 1)
    assert controller.cwnd == 10 * MTU


def test_the_first_sample_waits_while_python_is_away() -> None:
    """What follows from a base RTT is made in Python: until it is there the window is that of a start without one."""
    flow, there = (Window(base_rtt=None, initial_cwnd=None) for _ in range(2))
    flow.controller.away.up = True
    before = flow.cwnd
    for each in (flow, there):
        each.fill()
        each.ack(BASE_RTT, MTU, delay=0)
        each.ack(2 * BASE_RTT, MTU, delay=TARGET, marked=True)
    assert there.controller.base_rtt == BASE_RTT
    assert flow.controller.base_rtt is None
    assert (flow.cwnd, flow.controller.avg_delay) == (before, 0)
    assert flow.controller.away.waits
    flow.controller.away.up = False
    flow.ack(3 * BASE_RTT, MTU, delay=0)
    assert flow.controller.base_rtt == BASE_RTT
    assert flow.controller.parameters == there.controller.parameters
