# SPDX-License-Identifier: BSD-2-Clause
"""The pattern a flow writes: what the target finds wrong, and what it cannot miss."""

from __future__ import annotations

import numpy as np
import pytest

from mrc.drill.pattern import SLOTS, VARIANTS, Comparison, Pattern
from mrc.errors import CallerError

SIZE = 4096


def written(pattern: Pattern, numbers: range) -> np.ndarray:
    ring, content = np.zeros(pattern.ring_bytes, np.uint8), pattern.content()
    for number in numbers:
        at, source = pattern.ring_offset(number), pattern.source_offset(number)
        ring[at : at + SIZE] = content[source : source + SIZE]
    return ring


def test_what_was_written_is_right_lap_after_lap() -> None:
    pattern = Pattern(7, SIZE)
    for first in (0, SLOTS - 2, 5 * SLOTS + 3):
        numbers = range(first, first + 4)
        comparison = Comparison(pattern, written(pattern, numbers))
        assert [comparison.wrong_bytes(number) for number in numbers] == [0, 0, 0, 0]


def test_one_wrong_bit_is_found_and_only_where_it_is() -> None:
    pattern = Pattern(7, SIZE)
    ring = written(pattern, range(3))
    ring[pattern.ring_offset(1) + 100] ^= 1
    comparison = Comparison(pattern, ring)
    assert [comparison.wrong_bytes(number) for number in range(3)] == [0, 8, 0]


def test_what_lay_there_a_lap_ago_does_not_pass_for_new() -> None:
    pattern = Pattern(7, SIZE)
    comparison = Comparison(pattern, written(pattern, range(SLOTS)))
    for lap in range(1, VARIANTS):
        assert comparison.wrong_bytes(3 + lap * SLOTS) > SIZE * 0.99


def test_memory_nobody_wrote_to_is_wrong() -> None:
    pattern = Pattern(7, SIZE)
    assert Comparison(pattern, np.zeros(pattern.ring_bytes, np.uint8)).wrong_bytes(0) == SIZE


def test_the_seed_decides_the_bytes() -> None:
    assert np.array_equal(Pattern(1, SIZE).content(), Pattern(1, SIZE).content())
    assert not np.array_equal(Pattern(1, SIZE).content(), Pattern(2, SIZE).content())


@pytest.mark.parametrize("size", [0, 7, 4097])
def test_a_size_that_is_no_multiple_of_a_word_is_refused(size: int) -> None:
    with pytest.raises(CallerError, match="multiple of 8"):
        Pattern(1, size)
