# SPDX-License-Identifier: BSD-2-Clause
"""Tables that grow: rows are found wherever they lie."""

from __future__ import annotations

from random import Random

import pytest

from mrc.endpoint.parts.numbers import Table


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_wrap_around_the_end_are_found_after_others_went(seed: int) -> None:
    """Many small tables, about half full: in some of them a run of rows goes on at the beginning."""
    random = Random(seed)
    for _ in range(40):
        table, plain = Table(3), dict[int, int]()
        for step in range(60):
            key = random.randrange(1 << 30)
            if len(plain) < 8:
                row = table.put(key)
                table.set_cell(row + 2, step)
                plain[key] = step
            else:
                gone = random.choice(sorted(plain))
                table.remove(table.find(gone))
                del plain[gone]
                assert table.find(gone) == -1
            assert table.count == len(plain)
            assert {key: table.cell(table.find(key) + 2) for key in plain} == plain


def test_it_is_at_most_half_full_and_no_larger_than_it_needs_to_be() -> None:
    """Sixteen rows' room in the beginning; doubled when more than half of it would be taken."""
    table = Table(2)
    sizes = []
    for key in range(40):
        table.put(key)
        sizes.append(table.size // 2)
    assert sizes == [16] * 8 + [32] * 8 + [64] * 16 + [128] * 8
