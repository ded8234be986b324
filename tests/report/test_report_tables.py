# SPDX-License-Identifier: BSD-2-Clause
"""Tables of text."""

from __future__ import annotations

from mrc.report.tables import aligned, markdown

ROWS = [["", "Gbit/s", "why"], ["mrc", "12.5", "-"], ["tcp-no-offload", "1", "a reason"]]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert aligned(ROWS) == [
        "                Gbit/s  why",
        "mrc             12.5    -",
        "tcp-no-offload  1       a reason",
    ]


def test_a_column_may_stand_to_the_right() -> None:
    assert aligned(ROWS, right={1})[1:] == ["mrc               12.5  -", "tcp-no-offload       1  a reason"]


def test_markdown() -> None:
    assert markdown(["a", "b"], [["1", "2"], ["3", "4"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |", "| 3 | 4 |"]
