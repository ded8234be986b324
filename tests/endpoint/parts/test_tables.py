# SPDX-License-Identifier: BSD-2-Clause
"""Tables of numbers (mrc.endpoint.parts.numbers), against a dict."""

from __future__ import annotations

from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.endpoint.parts.numbers import Table

VALUE = 1


def _put(table: Table, key: int, value: int) -> None:
    row = table.put(key)
    table.set_cell(row + VALUE, value)


def _value(table: Table, key: int) -> int | None:
    row = table.find(key)
    return None if row < 0 else table.cell(row + VALUE)


@settings(max_examples=draws(37))
@given(st.lists(st.tuples(st.booleans(), st.one_of(st.integers(0, 40), st.integers(0, 1 << 46))), max_size=300))
def test_rows_come_and_go_as_in_a_dict(steps: list[tuple[bool, int]]) -> None:
    table, plain = Table(2), dict[int, int]()
    for number, (comes, key) in enumerate(steps):
        if comes and key not in plain:
            _put(table, key, number)
            plain[key] = number
        elif not comes and key in plain:
            table.remove(table.find(key))
            del plain[key]
        assert table.count == len(plain)
        assert _value(table, key) == plain.get(key)
    assert table.rows() == sorted(plain.items())
    assert all(_value(table, key) == value for key, value in plain.items())


def test_rows_close_up_where_one_was_taken_out() -> None:
    """However many there are, and in whatever order they go: those that are left are found."""
    table = Table(2)
    for key in range(1000):
        _put(table, 64 * key, key)
    for key in range(0, 1000, 3):
        table.remove(table.find(64 * key))
    assert [key for key in range(1000) if _value(table, 64 * key) != key] == list(range(0, 1000, 3))


def test_a_sweep_that_takes_rows_out_meets_each() -> None:
    """As the receive budget forgets: where a row was taken out another may lie now."""
    table = Table(2)
    for key in range(500):
        _put(table, key, key % 3)
    row = 0
    while row < table.size:
        if table.cell(row) >= 0 and table.cell(row + VALUE) == 0:
            table.remove(row)
        else:
            row += 2
    assert [key for key, _ in table.rows()] == [key for key in range(500) if key % 3]


def test_what_is_cleared_is_empty() -> None:
    table = Table(3)
    for key in range(20):
        table.put(key)
    table.clear()
    assert (table.count, table.rows(), table.find(7)) == (0, [], -1)
