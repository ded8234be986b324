# SPDX-License-Identifier: BSD-2-Clause
"""NSCC where nobody configured what the network is: the line rate is measured, windows have a user-space floor (C)."""

from __future__ import annotations

import dataclasses

import pytest
from nscc_network import MTU, SIZES

from mrc.endpoint.congestion import Nscc, NsccConfig
from mrc.endpoint.congestion.estimates import DeliveryRate
from mrc.net.tuning import USER_SPACE_NSCC

MILLISECOND, SECOND = 1_000_000, 1_000_000_000
RTT = 2 * MILLISECOND
MEASURED = NsccConfig(measure_line_rate=True)


def _acknowledged(controller: Nscc, bytes_per_ms: int, start_ms: int, stop_ms: int) -> None:
    for at in range(start_ms, stop_ms):
        controller.on_ack(at * MILLISECOND, bytes_per_ms, False, RTT)


def test_a_rate_is_what_was_acknowledged_in_an_interval() -> None:
    """1,250 bytes a millisecond are 10 Mbit/s; what comes first was delivered before."""
    rate = DeliveryRate(10 * MILLISECOND, SECOND, SECOND)
    ended = [rate.on_ack(at * MILLISECOND, 1_250) for at in range(11)]
    assert (ended, rate.bps) == ([*[False] * 10, True], 10_000_000)


def test_the_highest_rate_of_the_window_counts() -> None:
    rate = DeliveryRate(10 * MILLISECOND, SECOND, SECOND)
    for at, size in [*((at, 5_000) for at in range(21)), *((at, 1_250) for at in range(21, 500))]:
        rate.on_ack(at * MILLISECOND, size)
    assert rate.bps == 40_000_000
    for at in range(500, 1_200):
        rate.on_ack(at * MILLISECOND, 1_250)
    assert rate.bps == 10_000_000


def test_a_pause_of_the_application_is_part_of_no_interval() -> None:
    rate = DeliveryRate(10 * MILLISECOND, SECOND, SECOND)
    rate.on_ack(0, 1_250)
    rate.on_empty()
    assert not rate.on_ack(101 * MILLISECOND, 1_000_000)
    assert rate.bps == 0
    # What comes within the first interval after it may have waited.
    assert not any(rate.on_ack(at * MILLISECOND, 50_000) for at in range(102, 112))
    for at in range(112, 122):
        rate.on_ack(at * MILLISECOND, 1_250)
    assert rate.bps == 0 or rate.bps == 10_000_000
    for at in range(122, 132):
        rate.on_ack(at * MILLISECOND, 1_250)
    assert rate.bps == 10_000_000


def test_answers_that_come_far_apart_are_no_pause_while_something_is_on_its_way() -> None:
    """On a busy machine a SACK comes every 120 ms: 150,000 bytes in it are 10 Mbit/s."""
    rate = DeliveryRate(10 * MILLISECOND, 10 * SECOND, SECOND)
    rate.on_empty()
    assert not rate.on_ack(0, 150_000)
    assert rate.on_ack(120 * MILLISECOND, 150_000)
    assert rate.bps == 10_000_000
    # That the network ran empty before an interval says nothing of it.
    rate.on_empty()
    assert rate.on_ack(150 * MILLISECOND, 37_500)
    assert rate.on_ack(270 * MILLISECOND, 150_000)
    assert rate.bps == 10_000_000
    rate.on_empty()
    assert not rate.on_ack(390 * MILLISECOND, 150_000)


def test_what_waited_while_an_end_stood_still_is_no_rate() -> None:
    """1,250 bytes a millisecond. Nothing is acknowledged from 30 to 63 ms, and 34 times as much at 64 ms.

    The interval that began at 30 ms ends with the first answer, at 63 ms: 1,250 bytes in 33 ms. The next one has the
    rest: 42 times as much in 10 ms, with the one before 43 in 43 ms. Then all is as before.
    """
    rate = DeliveryRate(10 * MILLISECOND, SECOND, SECOND)
    for at in range(31):
        rate.on_ack(at * MILLISECOND, 1_250)
    rate.on_ack(63 * MILLISECOND, 1_250)
    rate.on_ack(64 * MILLISECOND, 33 * 1_250)
    for at in range(65, 100):
        rate.on_ack(at * MILLISECOND, 1_250)
    assert rate.bps == 10_000_000


def test_the_first_interval_alone_is_a_guess_that_the_second_replaces() -> None:
    rate = DeliveryRate(10 * MILLISECOND, SECOND, SECOND)
    for at in range(11):
        rate.on_ack(at * MILLISECOND, 5_000)
    assert rate.bps == 40_000_000
    for at in range(11, 21):
        rate.on_ack(at * MILLISECOND, 1_250)
    assert rate.bps == 10_000_000


@pytest.mark.parametrize("acked", [1, 1_234_567, 3_000_000_019, 400_000_000_007])
@pytest.mark.parametrize("ticks_per_second", [1_000_000, SECOND, 1_000_000_000_000])
def test_a_rate_is_rounded_down_however_large_its_factors(acked: int, ticks_per_second: int) -> None:
    """Bits times ticks a second may take more than 64 bits; the rate does not."""
    elapsed = ticks_per_second // 100 + 12_347
    rate = DeliveryRate(ticks_per_second // 100, 10 * ticks_per_second, ticks_per_second)
    rate.on_ack(0, 1)
    assert rate.on_ack(elapsed, acked)
    assert rate.bps == acked * 8 * ticks_per_second // elapsed


def test_the_measured_rate_is_the_line_rate() -> None:
    """12,500 bytes a millisecond are 100 Mbit/s, that and 2 ms a BDP of 25,000 bytes: at most 37,500."""
    controller = Nscc(SIZES, MEASURED)
    _acknowledged(controller, 12_500, 0, 12)
    assert controller.max_cwnd == 37_500
    assert controller.cwnd <= 37_500
    assert controller.parameters == MEASURED.parameters_for(SIZES, RTT, 100_000_000)


def test_the_window_follows_a_network_that_carries_more() -> None:
    controller = Nscc(SIZES, MEASURED)
    _acknowledged(controller, 12_500, 0, 12)
    _acknowledged(controller, 25_000, 12, 34)
    assert 70_000 <= controller.max_cwnd <= 75_000


def test_never_more_than_the_configured_rate() -> None:
    controller = Nscc(SIZES, dataclasses.replace(MEASURED, line_rate_bps=100_000_000))
    _acknowledged(controller, 125_000, 0, 12)
    assert controller.max_cwnd == 3 * 100_000_000 * RTT // (16 * SECOND)


def test_a_rate_that_is_given_is_where_a_busy_end_begins_and_not_where_it_stays() -> None:
    """200 Mbit/s and a peer that answers after 60 ms: 1.5 BDP would be 2,250,000 bytes. It begins with that of 3 ms.

    What arrives is 150,000 bytes in 120 ms, 10 Mbit/s: 1.5 BDP are 112,500 bytes, and what a SACK covers.
    """
    controller = Nscc(SIZES, USER_SPACE_NSCC.with_line_rate(200_000_000))
    assert controller.cwnd == 112_500 + 16 * 1024 < 128 * MTU
    controller.on_rtt(0, 60 * MILLISECOND)
    assert controller.cwnd == 112_500 + 16 * 1024
    assert controller.max_cwnd == 2_250_000 + 16 * 1024
    for at in range(6):
        controller.sent(2 * 150_000)
        controller.removed(150_000)
        controller.on_ack(at * 120 * MILLISECOND, 150_000, False, 60 * MILLISECOND)
    assert controller.max_cwnd == 112_500 + 16 * 1024
    assert controller.cwnd <= controller.max_cwnd


def test_a_round_trip_that_was_measured_through_a_full_queue_is_not_kept() -> None:
    """The first packets of a guessed rate wait for 20 ms; the target would be as long as that for ever."""
    controller = Nscc(SIZES, MEASURED)
    for at in range(40):
        controller.on_ack(at * MILLISECOND, 12_500, False, 20 * MILLISECOND)
    assert controller.parameters == MEASURED.parameters_for(SIZES, 20 * MILLISECOND, 100_000_000)
    controller.on_ack(40 * MILLISECOND, 12_500, False, RTT)
    assert controller.parameters == MEASURED.parameters_for(SIZES, RTT, 100_000_000)
    # A little less changes nothing, and what is configured stays as it is.
    controller.on_ack(41 * MILLISECOND, 12_500, False, RTT - RTT // 4)
    assert controller.parameters == MEASURED.parameters_for(SIZES, RTT, 100_000_000)


def test_where_the_line_rate_is_known_what_follows_from_the_first_round_trips_is_kept() -> None:
    controller = Nscc(SIZES, NsccConfig())
    for at in range(40):
        controller.on_ack(at * MILLISECOND, 12_500, False, 20 * MILLISECOND)
    before = controller.parameters
    controller.on_ack(40 * MILLISECOND, 12_500, False, RTT)
    assert controller.parameters == before


def test_a_small_change_of_the_rate_moves_nothing() -> None:
    controller = Nscc(SIZES, MEASURED)
    _acknowledged(controller, 12_500, 0, 12)
    _acknowledged(controller, 14_000, 12, 24)
    assert controller.max_cwnd == 37_500


def test_a_probed_round_trip_does_not_open_a_window_for_a_guessed_rate() -> None:
    """A busy peer answers probes after 200 ms: 10 Gbit/s would be 89,000 packets on their way at once."""
    controller = Nscc(SIZES, MEASURED)
    controller.on_rtt(1, 200 * MILLISECOND)
    assert controller.cwnd == 128 * MTU


def test_a_short_round_trip_counts_as_three_milliseconds_and_the_gap_of_sacks_comes_on_top() -> None:
    """Configured 100 Mbit/s: 1.5 x 37,500 bytes for 3 ms, and 16 KiB that no SACK has covered yet."""
    config = dataclasses.replace(USER_SPACE_NSCC, line_rate_bps=100_000_000, measure_line_rate=False)
    assert config.max_cwnd_for(SIZES, 100_000) == 56_250 + 16_384
    assert config.max_cwnd_for(SIZES, 4 * MILLISECOND) == 75_000 + 16_384


def test_all_that_is_derived_counts_a_short_round_trip_as_three_milliseconds() -> None:
    """What is configured stays, and a longer round trip counts as it is."""
    config = dataclasses.replace(USER_SPACE_NSCC, measure_line_rate=False)
    assert config.parameters_for(SIZES, 100_000) == config.parameters_for(SIZES, 3 * MILLISECOND)
    assert config.parameters_for(SIZES, 100_000).target == 3 * MILLISECOND
    assert config.parameters_for(SIZES, 4 * MILLISECOND).target == 4 * MILLISECOND
    assert dataclasses.replace(config, target_delay=50_000).parameters_for(SIZES, 100_000).target == 50_000
    assert NsccConfig().parameters_for(SIZES, 100_000).target == 100_000
