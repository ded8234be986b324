# SPDX-License-Identifier: BSD-2-Clause
"""24-bit PSN arithmetic (behaviour.md, Responder), against definitions by counting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.endpoint.requestor.sent import unbounded
from mrc.wire.psn import psn_add, psn_diff, psn_diff_array, unwrap

MODULUS, HALF = 1 << 24, 1 << 23
psns = st.integers(0, MODULUS - 1) | st.sampled_from([0, 1, HALF - 1, HALF, HALF + 1, MODULUS - 2, MODULUS - 1])
distances = st.integers(-HALF, HALF - 1) | st.sampled_from([-HALF, 1 - HALF, -1, 0, 1, HALF - 2, HALF - 1])


@given(psns, distances)
@example(0, -HALF)
@example(MODULUS - 1, 1)
def test_the_distance_back_from_where_one_went_is_how_far_one_went(psn: int, distance: int) -> None:
    """By definition: a PSN `distance` steps along the circle lies `distance` ahead, -2^23 .. 2^23 - 1."""
    there = (psn + distance) % MODULUS
    assert psn_add(psn, distance) == there
    assert psn_diff(there, psn) == distance


@pytest.mark.parametrize(
    ("a", "b", "ahead"),
    [
        (0, 0, 0),
        (0, MODULUS - 1, 1),
        (MODULUS - 1, 0, -1),
        (5, MODULUS - 5, 10),
        (HALF - 1, 0, HALF - 1),
        (HALF, 0, -HALF),
        (0, HALF, -HALF),
        (HALF + 1, 0, 1 - HALF),
        (0, HALF + 1, HALF - 1),
        (HALF + 7, 7, -HALF),
    ],
)
def test_distances_at_the_wrap_and_at_half_the_circle(a: int, b: int, ahead: int) -> None:
    """behaviour.md: `<= epsn - 2^23` is out of range, so exactly half the circle counts as behind."""
    assert psn_diff(a, b) == ahead


@given(st.lists(psns, min_size=1, max_size=50), psns)
def test_arrays_agree_with_numbers(many: list[int], base: int) -> None:
    array = np.array(many, np.int64)
    assert psn_diff_array(array, base).tolist() == [psn_diff(psn, base) for psn in many]


@pytest.mark.parametrize("nearest", [unwrap, unbounded])
@given(psns, st.integers(-(1 << 30), 1 << 40))
@example(MODULUS - 1, 0)
@example(0, -1)
@example(HALF, 0)
def test_unwrapping_finds_the_nearest_number_with_those_bits(
    nearest: Callable[[int, int], int], psn: int, near: int
) -> None:
    """That of captures and RC, and the requestor's, which is compiled."""
    number = nearest(psn, near)
    assert number % MODULUS == psn
    assert -HALF <= number - near < HALF


def test_every_psn_near_the_edges_by_counting() -> None:
    """Brute force: walk the circle one step at a time past both of its edges."""
    for start in (MODULUS - 300, HALF - 300):
        walker = start
        for steps in range(600):
            assert psn_diff(walker, start) == steps
            assert psn_diff(start, walker) == -steps
            walker = 0 if walker == MODULUS - 1 else walker + 1
