"""The array helpers against what Python's own sets and lists say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.wire.arrays import distinct, first_occurrences

values = st.lists(st.integers(-3, 3) | st.integers(-(1 << 62), 1 << 62), max_size=30)


@given(values)
@example([])
@example([5])
@example([5, 5])
@example([7, 5])
def test_distinct_values_are_those_of_the_set_in_rising_order(items: list[int]) -> None:
    found = distinct(np.array(items, np.int64))
    assert found.tolist() == sorted(set(items))
    assert found.dtype == np.int64


@given(values)
@example([])
@example([5])
@example([5, 5])
@example([7, 5, 7, 5])
def test_a_value_is_first_where_none_before_it_is_equal(items: list[int]) -> None:
    first = first_occurrences(np.array(items, np.int64))
    assert first.tolist() == [item not in items[:at] for at, item in enumerate(items)]
    assert first.dtype == np.bool_


def test_the_least_value_is_there_whatever_the_memory_held_before() -> None:
    for left_behind in (np.zeros, np.ones):
        used = [left_behind(6, np.bool_) for _ in range(20)]
        used.clear()
        assert distinct(np.array([9, 2, 2, 7, 9, 5], np.int64)).tolist() == [2, 5, 7, 9]


def test_of_many_equal_values_the_very_first_is_marked() -> None:
    """More than the 16 that a sort leaves in place whatever its kind."""
    items = [1, 0] * 500
    assert np.flatnonzero(first_occurrences(np.array(items, np.int64))).tolist() == [0, 1]


@pytest.mark.parametrize("function", [distinct, first_occurrences])
def test_what_is_asked_about_is_left_as_it_was(function: object) -> None:
    items = np.array([3, 1, 3, 2], np.int64)
    assert callable(function)
    function(items)
    assert items.tolist() == [3, 1, 3, 2]
