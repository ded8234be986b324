# SPDX-License-Identifier: BSD-2-Clause
"""The program's model of the queue as time passes: against another model of it, given the same clock."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from bpf_frames import CONTROL, NO_TRIM, NOT_ECT, framed, packet, send, settings, stand_still

from mrc.lab.bpf import LinkProgram

pytestmark = pytest.mark.root
SLOW_BPS = 200_000
# How far the two models may be apart; a packet is three times as long, or as long, or a tenth.
BLURRED_BYTES = 1000


@pytest.fixture
def program() -> Iterator[LinkProgram]:
    with LinkProgram.load() as loaded:
        yield loaded


@dataclass
class Waiting:
    """Bytes in a link's queue: those with priority leave first; below zero is credit."""

    rate_bps: int
    limit: int
    burst: int
    everything: float
    fast: float = 0.0

    def drain(self, seconds: float) -> None:
        out = seconds * self.rate_bps / 8
        self.fast = max(self.fast - out, 0)
        self.everything = max(self.everything - out, -self.burst)

    def has_room(self, length: int, *, fast: bool) -> bool:
        return (self.fast if fast else max(self.everything - self.fast, 0)) + length <= self.limit

    def add(self, length: int, *, fast: bool) -> None:
        self.everything += length
        self.fast += length if fast else 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate_bps", [SLOW_BPS, 2_000_000, 60_000_000, 1_000_000_000])
def test_what_fits_at_its_moment_passes_and_nothing_else(program: LinkProgram, rate_bps: int, seed: int) -> None:
    """It runs somewhere between two looks at the clock: by then at least so much has left, and at most so much."""
    dice = random.Random(seed)
    limit, burst = 20_000, dice.choice([0, 9000])
    program.set(replace(settings(rate_bps=rate_bps, queue_bytes=limit), burst_bytes=burst))
    least, most = (Waiting(rate_bps, limit, burst, -burst) for _ in range(2))
    earlier_before = earlier_after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    passed, undecided, count = 0, 0, 250 if rate_bps <= 2_000_000 else 600
    for number in range(count):
        fast = dice.random() < 0.3
        content = packet("udp6", CONTROL if fast else NO_TRIM, NOT_ECT, dice.choice([100, 1000, 3000]))
        length = len(framed(content))
        if number and dice.random() < 0.1:
            time.sleep(dice.random() * min(limit * 8 / rate_bps, 0.08))
        if rate_bps == SLOW_BPS and most.everything - least.everything > BLURRED_BYTES:
            # Other processes came in between the looks: once the queue is empty both models know the same.
            time.sleep((most.everything + burst) * 8 / rate_bps)
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        done = send(program, content)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        least.drain((after - earlier_before) / 1e9)
        most.drain(max(before - earlier_after, 0) / 1e9)
        could, must = least.has_room(length, fast=fast), most.has_room(length, fast=fast)
        assert could or not done.passed, f"packet {number} passed a full queue"
        assert done.passed or not must, f"packet {number} was dropped with room in the queue"
        undecided += could and not must
        passed += done.passed
        if done.passed:
            for each in (least, most):
                each.add(length, fast=fast)
        earlier_before, earlier_after = before, after
    assert program.counters().dropped_packets == count - passed
    assert passed > 0
    # At the slow rate the two looks are close together in bytes: the check is sharp.
    assert rate_bps > SLOW_BPS or (passed < count and undecided < count / 2)


def test_what_waits_is_as_many_bytes_at_another_rate(program: LinkProgram) -> None:
    content = packet("udp6", NO_TRIM, NOT_ECT, 1000 - 14 - 40 - 8 - 12 - 24 - 4)
    stand_still(program, settings(rate_bps=1_000_000_000, queue_bytes=20_500))
    for _ in range(15):
        send(program, content)
    stand_still(program, settings(rate_bps=200_000, queue_bytes=20_500))
    assert sum(send(program, content).passed for _ in range(10)) == 5


def test_a_pause_gives_credit_for_the_burst_and_no_more(program: LinkProgram) -> None:
    content = packet("udp6", NO_TRIM, NOT_ECT, 1000 - 14 - 40 - 8 - 12 - 24 - 4)
    wanted = replace(settings(rate_bps=100_000, queue_bytes=20_500), burst_bytes=7000)
    program.set(wanted)
    send(program, content)
    stand_still(program, wanted)
    assert sum(send(program, content).passed for _ in range(40)) == 6 + 20
    assert program.counters().queue_high_water_bytes in (19_999, 20_000)
