# SPDX-License-Identifier: BSD-2-Clause
"""What each signal does to NSCC's window, worked out by hand from nscc.md; nscc_network.py has the numbers."""

from __future__ import annotations

import pytest
from nscc_network import BASE_RTT, MAX_CWND, MTU, NO_AVERAGING, TARGET, Window

# Before the first period has passed and below its 40,000 bytes nothing is fulfilled.
EARLY = 1_000


# ------------------------------------------------------------------ ECN and delay


def test_without_a_mark_below_target_the_increase_is_proportional_to_what_is_missing() -> None:
    """MRC-CC-04."""
    window = Window()
    window.ack(EARLY, 5_000, delay=3_000)
    assert (window.cwnd, window.inc) == (100_000, 45_000_000)  # 1.5 x 5,000 x (9,000 - 3,000)


@pytest.mark.parametrize("delay", [TARGET, 5 * TARGET], ids=["at_target", "far_above"])
def test_without_a_mark_from_target_on_the_increase_is_fair(delay: int) -> None:
    """MRC-CC-05."""
    window = Window()
    window.ack(EARLY, 5_000, delay=delay)
    assert (window.cwnd, window.inc) == (100_000, 112_500_000)  # 22,500 x 5,000


def test_with_a_mark_below_target_nothing_changes() -> None:
    """MRC-CC-08."""
    window = Window(delay_average=NO_AVERAGING)
    window.ack(EARLY, 5_000, delay=TARGET - 1, marked=True)
    assert (window.cwnd, window.inc) == (100_000, 0)


@pytest.mark.parametrize(
    ("delay", "cwnd"),
    [
        (18_000, 60_000),  # 1 - 0.8 x 9,000 / 18,000 = 0.6
        (12_000, 80_000),  # 1 - 0.8 x 3,000 / 12,000 = 0.8
        (90_000, 50_000),  # 1 - 0.8 x 81,000 / 90,000 = 0.28, and no less than 0.5
        (9_000, 100_000),  # the average is not above target
    ],
)
def test_with_a_mark_from_target_on_the_window_shrinks_by_the_average_delay(delay: int, cwnd: int) -> None:
    """MRC-CC-06, MRC-CC-07, MRC-CC-30."""
    window = Window(delay_average=NO_AVERAGING, eta=0)
    window.ack(20_000, 5_000, delay=delay, marked=True)
    assert (window.cwnd, window.inc) == (cwnd, 0)


def test_a_decrease_waits_more_than_one_base_rtt_for_the_next() -> None:
    """MRC-CC-07."""
    window = Window(delay_average=NO_AVERAGING, eta=0, quick_adapt=False)
    for now, cwnd in ((20_000, 60_000), (20_000 + BASE_RTT, 60_000), (20_001 + BASE_RTT, 36_000)):
        window.ack(now, 5_000, delay=18_000, marked=True)
        assert window.cwnd == cwnd


def test_one_long_delay_is_no_decrease_when_the_average_is_short() -> None:
    """MRC-CC-07."""
    window = Window(eta=0)
    window.ack(20_000, 5_000, delay=72_000, marked=True)  # the average becomes 72,000 / 8 = 9,000
    assert (window.cwnd, window.controller.avg_delay) == (100_000, 9_000)
    window.ack(20_000, 5_000, delay=17_000, marked=True)  # 17,000 / 8 + 9,000 x 7 / 8 = 10,000
    assert (window.cwnd, window.controller.avg_delay) == (92_000, 10_000)  # 1 - 0.8 x 1,000 / 10,000


def test_a_decrease_stops_at_one_packet() -> None:
    """MRC-CC-07."""
    window = Window(delay_average=NO_AVERAGING, eta=0, initial_cwnd=6_000)
    window.ack(20_000, 5_000, delay=90_000, marked=True)
    assert window.cwnd == MTU


def test_an_acknowledgement_without_a_sample_moves_nothing() -> None:
    """MRC-CC-09."""
    window = Window()
    window.ack(20_000, 50_000, delay=None)
    window.controller.on_ack(20_000, 5_000, True, 0)
    window.controller.on_ack(20_000, 5_000, True, -5)
    assert (window.cwnd, window.inc, window.controller.avg_delay) == (100_000, 0, 0)


# ------------------------------------------------------------------ fast increase


def test_an_idle_path_for_more_than_a_window_increases_fast() -> None:
    """MRC-CC-13."""
    window = Window(initial_cwnd=20_000)
    for count in range(1, 5):
        window.ack(EARLY, 5_000, delay=0)
        assert (window.cwnd, window.inc) == (20_000, count * 67_500_000)  # 1.5 x 5,000 x 9,000
    window.ack(EARLY, 5_000, delay=0)  # 25,000 > 20,000
    assert (window.cwnd, window.inc) == (21_250, 270_000_000)
    window.ack(EARLY, 4_000, delay=0)  # 24,000 + 5,000 would not exceed the window: it goes on because it had begun
    assert (window.cwnd, window.inc) == (22_250, 270_000_000)


def test_a_fast_increase_ends_with_the_first_delay_and_counts_anew() -> None:
    """MRC-CC-13."""
    window = Window(initial_cwnd=20_000, adjust_bytes_threshold=1 << 30)
    for _ in range(5):
        window.ack(EARLY, 5_000, delay=0)
    window.ack(EARLY, 5_000, delay=1_500)
    assert (window.cwnd, window.inc) == (21_250, 270_000_000 + 56_250_000)
    for _ in range(4):
        window.ack(EARLY, 5_000, delay=0)
    assert window.cwnd == 21_250
    window.ack(EARLY, 5_000, delay=0)
    assert window.cwnd == 22_500


def test_a_mark_above_target_ends_a_fast_increase() -> None:
    window = Window(initial_cwnd=20_000)
    for _ in range(5):
        window.ack(EARLY, 5_000, delay=0)
    window.ack(EARLY, 5_000, delay=TARGET, marked=True)
    window.ack(EARLY, 5_000, delay=0)
    assert window.cwnd == 21_250


def test_a_fast_increase_ends_at_max_cwnd() -> None:
    """MRC-CC-12."""
    window = Window(initial_cwnd=224_000, adjust_bytes_threshold=1 << 30)
    window.ack(EARLY, 230_000, delay=0)
    assert window.cwnd == MAX_CWND


@pytest.mark.parametrize(
    ("zero_delay", "delay", "cwnd"),
    [(None, 1_499, 21_250), (None, 1_500, 20_000), (1_000, 999, 21_250), (1_000, 1_000, 20_000)],
    ids=["below_an_eighth", "at_an_eighth", "below_1us", "at_1us"],
)
def test_no_delay_means_below_an_eighth_of_base_rtt_or_what_is_configured(
    zero_delay: int | None, delay: int, cwnd: int
) -> None:
    """MRC-CC-27."""
    window = Window(initial_cwnd=20_000, zero_delay=zero_delay)
    for _ in range(5):
        window.ack(EARLY, 5_000, delay=delay)
    assert window.cwnd == cwnd


def test_no_delay_is_at_least_a_microsecond_on_a_short_path() -> None:
    """MRC-CC-27."""
    window = Window(base_rtt=4_000, initial_cwnd=20_000)
    for _ in range(5):
        window.controller.on_ack(EARLY, 5_000, False, 4_999)
    # a = 1/3: 20,000 + 5,000 x 0.25 / 3
    assert window.cwnd == 20_416


# ------------------------------------------------------------------ fulfilling increases


def test_increases_take_effect_after_eight_packets_without_eta() -> None:
    """MRC-CC-10, MRC-CC-11."""
    window = Window()
    window.ack(EARLY, 40_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (100_000, 900_000_000)
    window.ack(EARLY, 1, delay=TARGET)
    # 900,022,500 / 100,000 = 9,000.225
    assert (window.cwnd, window.inc) == (109_000, 0)


def test_increases_take_effect_after_more_than_a_period_with_eta() -> None:
    """MRC-CC-10, MRC-CC-11."""
    window = Window()
    window.ack(BASE_RTT, 5_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (100_000, 112_500_000)
    window.ack(BASE_RTT + 1, 5_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (102_925, 0)  # 225,000,000 / 100,000 + 675
    window.ack(2 * BASE_RTT + 1, 5_000, delay=TARGET)
    assert window.cwnd == 102_925
    window.ack(2 * BASE_RTT + 2, 5_000, delay=None)
    window.ack(2 * BASE_RTT + 2, 0, delay=TARGET)
    assert window.cwnd == 102_925 + 112_500_000 // 102_925 + 675


def test_eta_comes_with_eight_packets_when_exactly_a_period_has_passed() -> None:
    window = Window()
    window.ack(BASE_RTT, 40_001, delay=TARGET)
    assert window.cwnd == 100_000 + 9_000 + 675


def test_fulfilling_ends_at_max_cwnd() -> None:
    """MRC-CC-12."""
    window = Window(initial_cwnd=MAX_CWND - 100)
    window.ack(20_000, 5_000, delay=TARGET)
    assert (window.cwnd, window.inc) == (MAX_CWND, 0)


def test_fractions_of_an_increase_are_dropped_at_each_addition() -> None:
    window = Window(fi=0.75)
    window.ack(EARLY, 3, delay=TARGET)
    window.ack(EARLY, 3, delay=TARGET)
    assert window.inc == 4  # 2.25 and 2.25


# ------------------------------------------------------------------ losses and NACKs


def test_a_loss_takes_its_bytes_off_the_window_down_to_one_packet() -> None:
    """MRC-CC-16."""
    window = Window(initial_cwnd=14_000)
    for cwnd in (9_000, MTU, MTU):
        window.lose(EARLY, 5_000)
        assert window.cwnd == cwnd


@pytest.mark.parametrize("trimmed", [True, False], ids=["trimmed", "no_resource"])
def test_a_nack_takes_its_bytes_off_the_window_down_to_one_packet(trimmed: bool) -> None:
    """MRC-CC-18."""
    window = Window(initial_cwnd=14_000)
    for cwnd in (9_000, MTU, MTU):
        window.nack(EARLY, 5_000, trimmed=trimmed)
        assert window.cwnd == cwnd


# ------------------------------------------------------------------ the receiver's penalty


def test_the_receivers_penalty_takes_its_share_off_a_full_window() -> None:
    """MRC-CC-19."""
    window = Window()
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50)
    # inflight is 87,200 by then: less 50 x 12,800 / 128
    assert (window.cwnd, window.inc) == (82_200, 0)


def test_a_penalised_window_keeps_one_packet() -> None:
    """MRC-CC-19."""
    window = Window(initial_cwnd=20_000)
    window.fill()
    window.ack(EARLY, 18_000, delay=0, penalty=127)
    assert window.cwnd == MTU


def test_a_penalty_does_not_prevent_a_decrease() -> None:
    window = Window(delay_average=NO_AVERAGING, eta=0)
    window.fill()
    window.ack(20_000, 12_800, delay=18_000, marked=True, penalty=50)
    assert window.cwnd == 49_320  # 0.6 x 82,200


def test_the_window_before_the_first_penalty_is_saved_once_and_restored() -> None:
    """MRC-CC-20."""
    window = Window(eta=0)
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50, restore=True)
    window.fill()
    window.ack(2 * EARLY, 12_800, delay=0, penalty=50, restore=True)
    assert window.cwnd < 82_200
    window.ack(3 * EARLY, 0, delay=0)
    assert window.cwnd == 100_000
    window.lose(4 * EARLY, 5_000)
    window.ack(5 * EARLY, 0, delay=0)
    assert window.cwnd == 95_000


def test_without_restore_a_penalised_window_stays_low() -> None:
    window = Window(eta=0)
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50)
    window.ack(2 * EARLY, 0, delay=0)
    assert window.cwnd == 82_200


@pytest.mark.parametrize(("clamp", "cwnd"), [(True, 75_000), (False, 100_000)], ids=["clamped", "as_it_was"])
def test_a_restored_window_is_at_most_max_cwnd(clamp: bool, cwnd: int) -> None:
    """MRC-CC-26."""
    window = Window(clamp_restored_cwnd=clamp)
    window.fill()
    window.ack(EARLY, 12_800, delay=0, penalty=50, restore=True)
    window.controller.on_rtt(EARLY, 4_000)  # max_cwnd becomes 1.5 x 50,000
    window.ack(2 * EARLY, 0, delay=TARGET)
    assert window.cwnd == cwnd


@pytest.mark.parametrize(("only", "cwnd"), [(True, 100_000), (False, MTU)], ids=["when_limited_only", "always"])
def test_a_penalty_spares_a_window_that_was_not_full(only: bool, cwnd: int) -> None:
    """MRC-CC-26."""
    window = Window(penalty_when_limited_only=only)
    window.controller.sent(10_000)
    window.ack(EARLY, 5_000, delay=0, penalty=50)
    assert (window.cwnd, window.inc) == (cwnd, 0)


def test_a_penalty_applies_to_every_answer_of_a_turn_that_found_the_window_full() -> None:
    window = Window()
    window.fill()
    window.ack(EARLY, 12_800, delay=TARGET)
    window.ack(EARLY, 12_800, delay=TARGET, penalty=50)
    # The sender had no chance to fill the window in between: inflight 74,400 less 5,000.
    assert window.cwnd == 69_400


def test_a_penalty_finds_the_window_full_when_an_answer_took_nothing_off() -> None:
    window = Window()
    window.fill()
    window.controller.on_ack(EARLY, 12_800, False, BASE_RTT, 50)
    assert window.cwnd == 95_000


def test_what_earlier_answers_found_does_not_count_for_an_answer_that_took_nothing_off() -> None:
    window = Window()
    window.controller.sent(50_000)
    window.ack(EARLY, 5_000, delay=TARGET)
    window.fill()
    window.controller.on_ack(2 * EARLY, 12_800, False, BASE_RTT, 50)
    assert window.cwnd == 95_000


def test_what_a_timer_took_off_does_not_count_for_an_answer_that_took_nothing_off() -> None:
    window = Window()
    window.fill()
    window.ack(EARLY, 5_000, delay=TARGET)
    window.lose(EARLY + 1, 5_000)
    window.fill()
    window.controller.on_ack(2 * EARLY, 12_800, False, BASE_RTT, 50)
    assert window.cwnd == 90_000
