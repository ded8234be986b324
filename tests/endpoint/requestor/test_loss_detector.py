# SPDX-License-Identifier: BSD-2-Clause
"""Which transmissions are lost, and when (behaviour.md, Requestor, Loss), asked of the detector itself.

The round trip is 100 us, so the reorder guard is 25 us and 3 packets, and the path timer 1 ms.
"""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, SECOND

from mrc.endpoint.config import LossConfig
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.requestor.loss import LossDetector
from mrc.endpoint.requestor.sent import SentPackets

FIRST, RTT, TIMEOUT = 100, 100 * MICROSECOND, 20 * MILLISECOND


class Sender:
    """Packets sent at given times (us), a round trip of 100 us, and the detector of their losses."""

    def __init__(self, *at: int, measured: bool = True) -> None:
        self.sent, self.rtt = SentPackets(64, FIRST), RttEstimator()
        if measured:
            self.rtt.sample(RTT, 0)
        self.loss = LossDetector(self.sent, self.rtt, LossConfig(), TIMEOUT)
        for each in at:
            self.send(each)

    def send(self, at: int) -> None:
        self.sent.transmit_one(1000, 0, at * MICROSECOND)

    def arrived(self, *numbers: int) -> None:
        for number in numbers:
            self.sent.settle(number)
            self.loss.latest_acked = max(self.loss.latest_acked, number)

    def holes(self) -> list[int]:
        found = []
        while (number := self.loss.next_hole()) >= 0:
            self.sent.lose(number)
            found.append(number)
        return found

    def timed_out(self, now: int) -> list[int]:
        found = []
        self.loss.look_for_timeouts(now)
        while (number := self.loss.next_timed_out(now)) >= 0:
            self.sent.lose(number)
            found.append(number)
        return found

    def unanswered(self, now: int) -> list[int]:
        found = []
        self.loss.look_at_all()
        while (number := self.loss.next_unanswered(now)) >= 0:
            self.sent.lose(number)
            found.append(number)
        return found


@pytest.mark.parametrize(
    ("apart", "latest", "lost"),
    [
        pytest.param(10, 2, [], id="two packets beyond it"),
        pytest.param(10, 3, [0], id="three packets and 30 us"),
        pytest.param(8, 3, [], id="three packets and 24 us"),
        pytest.param(5, 5, [0], id="five packets and 25 us"),
        pytest.param(1, 24, [], id="24 us"),
        pytest.param(1, 25, [0], id="25 us"),
    ],
)
def test_a_hole_is_a_loss_a_guard_in_packets_and_in_time_later(apart: int, latest: int, lost: list[int]) -> None:
    sender = Sender(*range(0, 30 * apart, apart))
    sender.arrived(latest)
    assert sender.holes() == lost


def test_every_hole_old_enough_is_found_once_and_no_other() -> None:
    sender = Sender(*range(0, 100, 10))
    sender.arrived(1, 4, 8)
    assert sender.holes() == [0, 2, 3, 5]
    assert sender.holes() == []
    sender.arrived(9)
    assert sender.holes() == [6]


def test_a_probe_tells_of_what_was_sent_a_guard_before_it() -> None:
    """However few packets there are; of what left less than the guard before it says nothing."""
    sender = Sender(0, 10, 74, 75, 76, 100)
    sender.loss.on_probe_answered(6, 100 * MICROSECOND)
    assert sender.holes() == [0, 1, 2, 3]
    sender.loss.on_probe_answered(6, 101 * MICROSECOND)
    assert sender.holes() == [4]


def test_a_probe_says_nothing_of_what_left_after_it() -> None:
    sender = Sender(0, 10, 20)
    sender.loss.on_probe_answered(2, 40 * MICROSECOND)
    assert sender.holes() == [0, 1]


def test_the_answer_of_an_older_probe_takes_nothing_back() -> None:
    for stop, asked in ((5, 80), (3, 50)):
        sender = Sender(0, 10, 20, 30, 60)
        sender.loss.on_probe_answered(5, 100 * MICROSECOND)
        sender.loss.on_probe_answered(stop, asked * MICROSECOND)
        assert sender.holes() == [0, 1, 2, 3, 4]


def test_the_guard_is_whole_nanoseconds() -> None:
    sender = Sender(measured=False)
    assert sender.loss.guard() == 0
    sender.rtt.sample(101, 0)
    assert str(sender.loss.guard()) == "25"


def test_a_path_timer_runs_from_the_first_packet_unless_it_was_alone() -> None:
    sender = Sender(0)
    assert sender.loss.next_deadline() == FOREVER
    sender.loss.arm(0, True)
    assert sender.loss.next_deadline() == 1 * MILLISECOND
    sender.loss.arm(300 * MICROSECOND, False)
    assert sender.loss.next_deadline() == 1 * MILLISECOND
    sender.loss.arm(500 * MICROSECOND, True)
    assert sender.loss.next_deadline() == 1500 * MICROSECOND
    sender.arrived(0)
    assert sender.loss.next_deadline() == FOREVER


def test_an_earlier_path_timer_takes_the_place_of_a_later_one() -> None:
    """10 ms before the first round trip is known, 1 ms after it."""
    sender = Sender(0, measured=False)
    sender.loss.arm(0, True)
    assert sender.loss.next_deadline() == 10 * MILLISECOND
    sender.rtt.sample(RTT, 0)
    sender.loss.arm(2 * MILLISECOND, False)
    assert sender.loss.next_deadline() == 3 * MILLISECOND


def test_what_waited_a_path_timer_is_lost_and_the_next_has_its_own() -> None:
    sender = Sender(0, 200, 300)
    sender.loss.arm(0, True)
    sender.loss.on_heard(950 * MICROSECOND)
    assert sender.timed_out(1 * MILLISECOND - 1) == []
    assert sender.loss.next_deadline() == 1 * MILLISECOND
    assert sender.timed_out(1 * MILLISECOND) == [0]
    assert sender.loss.next_deadline() == 1200 * MICROSECOND


@pytest.mark.parametrize(("heard", "lost"), [(900 * MICROSECOND, [0]), (900 * MICROSECOND - 1, [])])
def test_while_nothing_comes_for_a_round_trip_the_path_timer_waits(heard: int, lost: list[int]) -> None:
    sender = Sender(0)
    sender.loss.arm(0, True)
    sender.loss.on_heard(heard)
    assert sender.timed_out(1 * MILLISECOND) == lost
    assert sender.loss.next_deadline() == (FOREVER if lost else 2 * MILLISECOND)


def test_after_a_silence_all_path_timers_start_afresh() -> None:
    """What comes first of all ends none."""
    sender = Sender(0)
    sender.loss.arm(0, True)
    sender.loss.on_heard(100 * MICROSECOND)
    sender.loss.on_heard(950 * MICROSECOND)
    assert sender.timed_out(1 * MILLISECOND) == []
    sender.loss.on_heard(1900 * MICROSECOND)
    sender.loss.on_heard(1940 * MICROSECOND)
    assert sender.timed_out(1950 * MICROSECOND) == []
    sender.loss.on_heard(2890 * MICROSECOND)
    assert sender.loss.next_deadline() >= 1950 * MICROSECOND


@pytest.mark.parametrize("began", [0, 10**9])
def test_what_comes_first_ends_no_silence_whatever_the_clock_says(began: int) -> None:
    """`began` us after the clock's zero: path timers run from the first packet, not from its answer."""
    sender, start = Sender(began), began * MICROSECOND
    sender.loss.arm(start, True)
    sender.loss.on_heard(start + 950 * MICROSECOND)
    assert sender.timed_out(start + 1 * MILLISECOND) == [0]


def test_what_nothing_answers_is_lost_after_the_longest_timer_however_silent_it_is() -> None:
    sender = Sender(0, 1000)
    assert sender.unanswered(TIMEOUT - 1) == []
    assert sender.unanswered(TIMEOUT) == [0]
    assert sender.unanswered(TIMEOUT + 1 * MILLISECOND) == [1]


@pytest.mark.parametrize(("late", "stood_still"), [(SECOND // 10 - 1, False), (SECOND // 10, True)])
def test_a_path_timer_100_ms_late_says_that_the_requestor_stood_still(late: int, stood_still: bool) -> None:
    """behaviour.md, RTT samples: "The requestor stood still when a path timer runs 100 ms late or more"."""
    sender = Sender(0)
    sender.loss.arm(0, True)
    now = 1 * MILLISECOND + late
    sender.loss.on_heard(now)
    assert sender.loss.tells_a_round_trip(now - 1) is not stood_still
    assert sender.loss.tells_a_round_trip(now)


def test_where_no_path_timer_runs_nobody_stood_still() -> None:
    sender = Sender(0)
    sender.loss.on_heard(5 * SECOND)
    assert sender.loss.tells_a_round_trip(0)


def test_what_is_counted_begins_with_the_first_acknowledgement() -> None:
    """Even with a guard of one packet nothing is lost before anything arrived."""
    sender = Sender(0, 50)
    eager = LossDetector(sender.sent, sender.rtt, LossConfig(reorder_guard_packets=1), TIMEOUT)
    assert eager.next_hole() < 0
    eager.latest_acked = 1
    assert eager.next_hole() == 0


def test_before_the_peer_was_ever_heard_it_is_silent() -> None:
    sender = Sender(0)
    sender.loss.arm(0, True)
    assert not sender.loss.heard_since(0)
    assert sender.timed_out(500 * MICROSECOND) == []
    assert sender.loss.next_deadline() == 1 * MILLISECOND
    assert sender.timed_out(1 * MILLISECOND) == []
    assert sender.loss.next_deadline() == 2 * MILLISECOND
    sender.loss.on_heard(1 * MILLISECOND)
    assert [sender.loss.heard_since(1 * MILLISECOND + after) for after in (-1, 0, 1)] == [True, True, False]


def test_what_is_sent_after_all_has_arrived_can_be_lost_too() -> None:
    sender = Sender(0)
    sender.arrived(0)
    sender.loss.on_probe_answered(1, 10 * MICROSECOND)
    assert sender.holes() == []
    sender.send(100)
    sender.loss.on_probe_answered(2, 200 * MICROSECOND)
    assert sender.holes() == [1]


def test_a_packet_beyond_a_probe_does_not_make_up_for_the_guard_in_packets() -> None:
    """It left 10 us before the probe, and only one packet that left after it has arrived."""
    sender = Sender(0, 10, 100)
    sender.loss.on_probe_answered(2, 20 * MICROSECOND)
    sender.arrived(2)
    assert sender.holes() == []
