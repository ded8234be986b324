# SPDX-License-Identifier: BSD-2-Clause
"""Generated EVs by number and how many there are, against trying every EV (wire.md section 10)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.wire.entropy import EvField, expanded, generated_count, generated_ev, generated_evs

PLAIN = EvField(3, 0b010, 0b101)


@st.composite
def bounded_fields(draw: st.DrawFn) -> EvField:
    width = draw(st.integers(1, 5))
    mask = draw(st.integers(0, (1 << width) - 1))
    low = draw(st.integers(0, (1 << mask.bit_count()) - 1))
    high = draw(st.none() | st.integers(low, (1 << mask.bit_count()) - 1))
    return EvField(width, draw(st.integers(0, (1 << width) - 1)), mask, low, high)


def _widths(fields: list[EvField]) -> list[int]:
    return [field.width for field in fields]


def _allowed(fields: list[EvField]) -> list[int]:
    """Every EV of as many bits as all masks have together that `expanded` takes."""
    allowed = []
    for ev in range(1 << sum(field.mask.bit_count() for field in fields)):
        try:
            expanded(ev, fields, _widths(fields))
        except CallerError:
            continue
        allowed.append(ev)
    return allowed


@given(st.lists(bounded_fields(), max_size=3))
@example([])
@example([EvField(4, 0, 0xF, 3, 9), PLAIN])
@example([EvField(4, 5), EvField(2, 1, 1, 1)])
def test_the_evs_of_a_profile_are_those_within_all_bounds(fields: list[EvField]) -> None:
    """MRC-EV-11."""
    allowed = _allowed(fields)
    assert list(generated_evs(fields)) == allowed
    assert generated_count(fields) == len(allowed)
    widths = _widths(fields)
    made = [generated_ev(fields, number, widths) for number in range(len(allowed))]
    assert made == [expanded(ev, fields, widths) for ev in allowed]


def test_bounds_themselves_are_allowed() -> None:
    field = EvField(8, 0xA0, 0x0F, min_val=2, max_val=5)
    assert [generated_ev([field], number, [8]) for number in range(4)] == [0xA2, 0xA3, 0xA4, 0xA5]
    assert [expanded(ev, [field], [8]) for ev in (2, 5)] == [0xA2, 0xA5]
    for ev in (1, 6):
        with pytest.raises(CallerError, match=rf"EV {ev:#x}: {ev} is outside 2\.\.5"):
            expanded(ev, [field], [8])
