# SPDX-License-Identifier: BSD-2-Clause
"""Pseudo-random numbers that interpreted and compiled code draw alike."""

from __future__ import annotations

from collections import Counter
from math import factorial

import pytest

from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.parts.numbers import column

# The first numbers from seed 1234567, as published with other implementations of SplitMix64.
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_numbers_are_those_of_splitmix64() -> None:
    draws = Draws(1234567)
    assert [draws.next_u64() for _ in PUBLISHED] == PUBLISHED


def test_a_seed_beyond_64_bits_counts_modulo_2_to_the_64() -> None:
    assert Draws((1 << 64) + 1234567).next_u64() == PUBLISHED[0]


def test_numbers_below_a_bound_follow_from_the_seed() -> None:
    """The upper 32 bits times the bound, without the lower 32 bits of that."""
    draws = Draws(1234567)
    assert [draws.below(1000) for _ in PUBLISHED] == [(number >> 32) * 1000 >> 32 for number in PUBLISHED]


def test_what_would_favour_some_numbers_is_drawn_again() -> None:
    """Of 2**32 numbers a bound of 3 * 2**30 leaves a quarter over."""
    bound = 3 << 30
    numbers = Draws(5)
    kept = [
        number for number in (numbers.next_u64() >> 32 for _ in range(400)) if number * bound % (1 << 32) >= 1 << 30
    ]
    draws = Draws(5)
    assert 200 < len(kept) < 400
    assert [draws.below(bound) for _ in kept] == [number * bound >> 32 for number in kept]


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 256])
def test_each_number_below_a_bound_is_as_likely(bound: int) -> None:
    """Chi-squared, 5 standard deviations above its mean at most."""
    draws, count = Draws(bound), 1000 * bound
    drawn = Counter(draws.below(bound) for _ in range(count))
    assert set(drawn) <= set(range(bound))
    squares = sum((drawn[number] - 1000) ** 2 / 1000 for number in range(bound))
    assert squares <= bound - 1 + 5 * (2 * (bound - 1)) ** 0.5


def test_a_shuffle_keeps_the_numbers_and_leaves_others_alone() -> None:
    numbers = column(64)
    for place in range(64):
        numbers[place] = 100 + place
    Draws(1).shuffle(numbers, 8, 40)
    after = numbers.tolist()
    assert after[:8] == list(range(100, 108))
    assert after[48:] == list(range(148, 164))
    assert sorted(after[8:48]) == list(range(108, 148)) != after[8:48]


def test_each_order_is_as_likely() -> None:
    draws, orders = Draws(2), Counter[tuple[int, ...]]()
    for _ in range(24000):
        numbers = column(4)
        for place in range(4):
            numbers[place] = place
        draws.shuffle(numbers, 0, 4)
        orders[tuple(numbers.tolist())] += 1
    assert len(orders) == factorial(4)
    squares = sum((count - 1000) ** 2 / 1000 for count in orders.values())
    assert squares <= 23 + 5 * 46**0.5


def test_nothing_and_one_number_stay_as_they_are() -> None:
    numbers = column(2, 7)
    Draws(3).shuffle(numbers, 1, 0)
    Draws(3).shuffle(numbers, 1, 1)
    assert numbers.tolist() == [7, 7]
