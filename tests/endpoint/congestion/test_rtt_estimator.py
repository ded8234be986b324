# SPDX-License-Identifier: BSD-2-Clause
"""The smoothed round trip and its variation, by hand (RFC 6298, section 2; mrc/endpoint/congestion/estimates.py).

"The first RTT measurement R: SRTT <- R, RTTVAR <- R/2"; later R': "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|,
SRTT <- (1 - alpha) * SRTT + alpha * R'", with alpha 1/8 and beta 1/4. One step a round trip here.
"""

from __future__ import annotations

import pytest

from mrc.endpoint.congestion.estimates import RttEstimator


def _after_first(rtt: int, now: int = 0) -> RttEstimator:
    estimator = RttEstimator()
    estimator.sample(rtt, now)
    return estimator


def _values(estimator: RttEstimator) -> tuple[int, int, int]:
    return estimator.srtt, estimator.rttvar, estimator.minimum


def test_before_any_sample_nothing_is_known() -> None:
    estimator = RttEstimator()
    assert _values(estimator) == (0, 0, 0)
    assert estimator.path_timer() == 0


@pytest.mark.parametrize(("rtt", "half"), [(1, 0), (2, 1), (3, 1), (80_000, 40_000), (80_001, 40_000)])
def test_the_first_sample(rtt: int, half: int) -> None:
    """SRTT <- R, RTTVAR <- R/2; whole nanoseconds."""
    estimator = _after_first(rtt)
    assert _values(estimator) == (rtt, half, rtt)
    assert estimator.path_timer() == rtt + 4 * half


@pytest.mark.parametrize(
    ("second", "srtt", "rttvar"),
    [
        pytest.param(8000, 8000, 3000, id="the same: the variation falls by a quarter"),
        pytest.param(16000, 9000, 5000, id="twice as long: 1/8 of the difference up"),
        pytest.param(4000, 7500, 4000, id="half as long: 1/8 of it down; |8000 - 4000| is what the variation was"),
        pytest.param(8800, 8100, 3200, id="a little longer"),
    ],
)
def test_a_later_sample(second: int, srtt: int, rttvar: int) -> None:
    """From SRTT 8000 and RTTVAR 4000, a round trip later: RTTVAR first, with the SRTT of before."""
    estimator = _after_first(8000)
    estimator.sample(second, 8000)
    assert _values(estimator) == (srtt, rttvar, min(8000, second))
    assert estimator.path_timer() == srtt + 4 * rttvar


@pytest.mark.parametrize(("at", "taken"), [(7999, False), (8000, True), (8001, True)])
def test_one_step_a_round_trip(at: int, taken: bool) -> None:
    """ "a step for every SACK would make the variation vanish": the next one round trip after the first at 0."""
    estimator = _after_first(8000)
    estimator.sample(16000, at)
    assert estimator.srtt == (9000 if taken else 8000)


@pytest.mark.parametrize(("at", "taken"), [(18_999, False), (19_000, True)])
def test_the_next_step_is_a_smoothed_round_trip_after_the_last(at: int, taken: bool) -> None:
    """The second step at 10,000 makes SRTT 9000."""
    estimator = _after_first(8000)
    estimator.sample(16000, 10_000)
    estimator.sample(9000, at)
    assert (estimator.srtt, estimator.rttvar) == (9000, 3750 if taken else 5000)


def test_the_lowest_is_kept_between_steps_too() -> None:
    estimator = _after_first(8000)
    estimator.sample(3000, 1)
    estimator.sample(4000, 2)
    assert _values(estimator) == (8000, 4000, 3000)


@pytest.mark.parametrize("sample", [0, -5, 1])
def test_two_events_at_one_instant_are_a_nanosecond_apart(sample: int) -> None:
    """ "Samples of 0 or less (two events at one instant) count as 1 ns.", the first as well as later ones."""
    assert _values(_after_first(sample)) == (1, 0, 1)
    estimator = _after_first(8000)
    estimator.sample(sample, 1)
    assert _values(estimator) == (8000, 4000, 1)
    estimator.sample(sample, 8000)
    # 8000 - 7999 / 8, and 4000 + (7999 - 4000) / 4, both floored.
    assert _values(estimator) == (8000 - 1000, 4999, 1)


def test_an_original_that_came_late_counts_at_once() -> None:
    """Samples count once a round trip; an original that was resent meanwhile shows that the timers are too short.

    First 100: srtt 100, rttvar 50. Late, 900: rttvar += (800 - 50) // 4 = 187, srtt += 800 // 8.
    """
    estimator = _after_first(100)
    estimator.late(900, 1)
    assert _values(estimator)[:2] == (200, 237)


@pytest.mark.parametrize(
    ("rtt", "timeout", "timer"),
    [
        pytest.param(100, 300, 300, id="srtt + 4 rttvar is no longer than the local ACK timeout"),
        pytest.param(101, 300, 602, id="longer: twice srtt + 4 rttvar, 101 + 4 x 50"),
    ],
)
def test_the_coarse_timer_is_never_shorter_than_round_trips_are(rtt: int, timeout: int, timer: int) -> None:
    assert _after_first(rtt).coarse_timer(timeout) == timer
