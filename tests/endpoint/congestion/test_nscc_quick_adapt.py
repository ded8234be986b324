# SPDX-License-Identifier: BSD-2-Clause
"""Quick adapt: once per base_rtt + target, if far too little got through, the window jumps down to what did."""

from __future__ import annotations

import pytest
from nscc_network import BASE_RTT, MTU, NO_AVERAGING, NO_FULFIL, TARGET, Window

OPENED = 12_000
ENDS = OPENED + BASE_RTT + TARGET  # with trimming
ENDS_UNTRIMMED = OPENED + 2 * BASE_RTT


def opened(**changes: object) -> Window:
    """A full window whose first interval began at OPENED."""
    window = Window(**changes)
    window.fill()
    window.ack(OPENED, 5_000, delay=TARGET)
    window.fill()
    return window


def test_too_little_after_a_trim_cuts_the_window_to_what_got_through() -> None:
    """MRC-CC-14, MRC-CC-17."""
    window = opened()
    window.nack(20_000, 5_000)
    assert window.cwnd == 95_000
    window.ack(ENDS, 10_000, delay=0)
    assert (window.cwnd, window.inc) == (10_000, 0)


def test_the_cut_window_keeps_one_packet() -> None:
    """MRC-CC-14."""
    window = opened()
    window.nack(20_000, 5_000)
    window.ack(ENDS, 100, delay=0)
    assert window.cwnd == MTU


def test_nothing_is_judged_before_the_interval_ends() -> None:
    """MRC-CC-14."""
    window = opened(**NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(ENDS - 1, 10_000, delay=TARGET)
    assert window.cwnd == 95_000


@pytest.mark.parametrize(("got_through", "cut"), [(28_124, True), (28_125, False)], ids=["below", "an_eighth"])
def test_an_eighth_of_max_cwnd_is_enough(got_through: int, cut: bool) -> None:
    """MRC-CC-14, MRC-CC-32."""
    window = opened(**NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(ENDS, got_through, delay=TARGET)
    assert window.cwnd == (got_through if cut else 95_000)


def test_the_gate_is_a_power_of_two() -> None:
    window = opened(qa_gate=2)
    window.nack(20_000, 5_000)
    window.ack(ENDS, 56_249, delay=TARGET)
    assert window.cwnd == 56_249


def test_each_interval_counts_anew() -> None:
    window = opened(**NO_FULFIL)
    window.ack(20_000, 30_000, delay=TARGET)
    window.fill()
    window.ack(ENDS, 5_000, delay=TARGET)  # no reason to judge
    window.fill()
    window.nack(ENDS + 1, 5_000)
    window.ack(ENDS + BASE_RTT + TARGET, 5_000, delay=TARGET)
    assert window.cwnd == 5_000


def test_a_nack_at_the_end_of_an_interval_is_reason_enough() -> None:
    """MRC-CC-18."""
    window = opened()
    window.ack(20_000, 10_000, delay=TARGET)
    window.fill()
    window.nack(ENDS, 5_000, trimmed=False)
    assert window.cwnd == 10_000


def test_a_resource_nack_leaves_no_reason_for_later() -> None:
    """MRC-CC-17."""
    window = opened(eta=0)
    window.nack(20_000, 5_000, trimmed=False)
    window.ack(ENDS, 10_000, delay=TARGET)
    # Fair increases only: 112,500,000 and 225,000,000 of inc by now.
    assert window.cwnd == 95_000 + 337_500_000 // 95_000


@pytest.mark.parametrize(("delay", "cut"), [(48_001, True), (48_000, False)], ids=["above", "at_four_targets"])
def test_without_trimming_a_delay_above_four_targets_is_a_reason(delay: int, cut: bool) -> None:
    """MRC-CC-14, MRC-CC-32."""
    window = opened(trimming=False, **NO_FULFIL)
    window.ack(ENDS_UNTRIMMED, 10_000, delay=delay)
    assert window.cwnd == (10_000 if cut else 100_000)


def test_with_trimming_no_delay_is_a_reason() -> None:
    """MRC-CC-32."""
    window = opened(**NO_FULFIL)
    window.ack(ENDS, 10_000, delay=1_000_000)
    assert window.cwnd == 100_000


def test_a_configured_threshold_holds_with_trimming_too() -> None:
    window = opened(qa_threshold=20_000)
    window.ack(ENDS, 10_000, delay=20_001)
    assert window.cwnd == 10_000


def test_marks_and_nacks_of_what_was_in_flight_are_ignored_after_a_cut() -> None:
    """MRC-CC-15, MRC-CC-17."""
    window = opened(delay_average=NO_AVERAGING, eta=0)
    window.nack(20_000, 5_000)
    window.ack(ENDS, 15_000, delay=0)
    in_flight = window.controller.inflight
    assert (window.cwnd, in_flight) == (15_000, 80_000)
    now = ENDS + BASE_RTT + 1
    window.ack(now, 30_000, delay=90_000, marked=True)
    window.nack(now, 30_000)
    assert (window.cwnd, window.inc) == (15_000, 0)
    window.lose(now, 1_000)  # counts as well
    assert window.cwnd == 14_000
    window.ack(now, 18_999, delay=90_000, marked=True)  # 79,999 of 80,000
    assert window.cwnd == 14_000
    window.ack(now, 1, delay=90_000, marked=True)
    assert window.cwnd == 7_000


def test_an_unmarked_acknowledgement_counts_at_once_after_a_cut() -> None:
    window = opened(**NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(ENDS, 15_000, delay=0)
    window.ack(ENDS + 1, 1_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (15_000, 22_500_000)


def test_it_can_be_turned_off() -> None:
    window = opened(quick_adapt=False, **NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(ENDS, 10_000, delay=TARGET)
    assert window.cwnd == 95_000


# ------------------------------------------------------------------ only while the window is the limit


@pytest.mark.parametrize(("only", "cwnd"), [(True, 95_000), (False, MTU)], ids=["when_limited_only", "always"])
def test_a_sender_that_paused_is_not_cut_down(only: bool, cwnd: int) -> None:
    """MRC-CC-25."""
    window = opened(quick_adapt_when_limited_only=only, **NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(21_000, window.controller.inflight, delay=TARGET)
    window.ack(ENDS, 0, delay=TARGET)  # ends this interval, in which enough got through
    window.fill()
    window.ack(10_000_000, 5_000, delay=TARGET)
    assert window.cwnd == cwnd


@pytest.mark.parametrize(("only", "cwnd"), [(True, 95_000), (False, MTU)], ids=["when_limited_only", "always"])
def test_a_full_window_answered_at_once_and_then_a_pause_is_not_cut_down(only: bool, cwnd: int) -> None:
    window = opened(quick_adapt_when_limited_only=only, **NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(ENDS, window.controller.inflight, delay=TARGET)  # enough; the next interval begins
    window.fill()
    window.ack(10_000_000, 5_000, delay=TARGET)
    assert window.cwnd == cwnd


def test_an_interval_that_began_with_room_is_not_judged() -> None:
    """MRC-CC-25."""
    window = Window(**NO_FULFIL)
    window.controller.sent(50_000)
    window.ack(OPENED, 5_000, delay=TARGET)
    window.fill()
    window.nack(20_000, 5_000)
    window.ack(ENDS, 5_000, delay=TARGET)
    assert window.cwnd == 95_000


@pytest.mark.parametrize(("only", "cut"), [(True, False), (False, True)], ids=["when_limited_only", "always"])
def test_an_interval_in_which_the_sender_left_room_is_not_judged(only: bool, cut: bool) -> None:
    """MRC-CC-25."""
    window = opened(quick_adapt_when_limited_only=only, **NO_FULFIL)
    window.nack(20_000, 5_000)
    window.ack(21_000, 5_000, delay=TARGET)
    # Nothing is sent although 5,000 bytes and more may be.
    window.ack(22_000, 5_000, delay=TARGET)
    window.fill()
    window.ack(ENDS, 5_000, delay=TARGET)
    assert window.cwnd == (15_000 if cut else 95_000)


def test_losses_that_timers_find_do_not_make_a_turn() -> None:
    window = opened()
    window.nack(20_000, 5_000)
    window.fill()
    window.ack(21_000, 5_000, delay=TARGET)
    window.lose(21_500, 5_000)
    window.fill()
    window.ack(ENDS, 5_000, delay=TARGET)
    assert window.cwnd == 10_000
