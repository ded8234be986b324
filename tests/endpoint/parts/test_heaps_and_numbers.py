# SPDX-License-Identifier: BSD-2-Clause
"""Heaps, numbers of 64 bits and limits of rate, in the plainest way."""

from __future__ import annotations

from random import Random

import pytest

from mrc.endpoint.counters import Counters
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import Heap, column, signed
from mrc.endpoint.parts.rate_limit import RateLimit, granted

SECOND = 1_000_000_000


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 40, 100])
def test_a_heap_gives_back_pairs_in_order(count: int, seed: int) -> None:
    random = Random(seed)
    pairs = [(random.randrange(max(2, count // 2)), random.randrange(1000)) for _ in range(count)]
    heap = Heap()
    assert heap.first() == FOREVER
    for at, (key, value) in enumerate(pairs, 1):
        heap.push(key, value)
        assert heap.count == at
        assert (heap.first(), heap.value()) == min(pairs[:at])
    assert heap.keys() == sorted(key for key, _ in pairs)
    taken = []
    while heap.count:
        value = heap.value()
        taken.append((heap.pop(), value))
    assert taken == sorted(pairs)
    assert heap.first() == FOREVER


def test_a_heap_that_was_cleared_is_empty_and_begins_anew() -> None:
    heap = Heap()
    for key in (5, 3, 4):
        heap.push(key, 0)
    heap.clear()
    assert (heap.count, heap.first(), heap.keys()) == (0, FOREVER, [])
    heap.push(7, 1)
    assert (heap.count, heap.pop()) == (1, 7)


@pytest.mark.parametrize(
    ("number", "held"),
    [
        (0, 0),
        (5, 5),
        (-5, -5),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, -1 << 63),
        ((1 << 64) - 1, -1),
        (-1 << 63, -1 << 63),
        ((1 << 63) + 7, (-1 << 63) + 7),
    ],
)
def test_an_address_of_64_bits_is_held_with_a_sign(number: int, held: int) -> None:
    assert signed(number) == held
    assert list(column(2, held)) == [held, held]


def test_a_burst_passes_at_once_then_one_an_interval() -> None:
    limit, counters = RateLimit(4, 1000), Counters()
    now = 5 * SECOND
    assert limit.take(3, now) == 3
    assert limit.take_counted(3, now, counters) == 1
    assert limit.take_counted(5, now, counters) == 0
    assert (limit.refused, counters.over_rate) == (7, 7)
    assert limit.take(5, now + 999_999) == 0
    assert limit.take(5, now + 1_000_000) == 1
    assert limit.take_counted(5, now + 3_500_000, counters) == 2
    assert (limit.refused, counters.over_rate) == (7 + 5 + 4 + 3, 10)
    assert limit.take(9, now + SECOND) == 4


def test_a_rate_that_is_no_whole_part_of_a_second() -> None:
    limit = RateLimit(1, 3)
    assert [limit.take(1, now) for now in (0, 333_333_332, 333_333_333)] == [1, 0, 1]
    fastest = RateLimit(1, 2 * SECOND)
    assert [fastest.take(1, now) for now in (0, 1, 2)] == [1, 1, 1]


def test_what_may_pass_is_a_whole_number() -> None:
    assert granted(100, 50, 20, 9, 90) == 2
    assert granted(100, 50, 20, 1, 90) == 1
