# SPDX-License-Identifier: BSD-2-Clause
"""Tables on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mrc.report.terminal import make_console, plain_table

TABLE = (("EV", "packets"), [["0x1", "12"], ["[red]0x2", "3"]])


def shown(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(plain_table(*TABLE, left={0}))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_columns_are_aligned_and_cells_are_no_markup() -> None:
    assert shown(80) == ["EV        packets", "0x1            12", "[red]0x2        3"]


def test_what_is_too_long_is_cut_or_folded() -> None:
    assert len(shown(12)) == 3
    assert any("…" in line for line in shown(12))
    console = Console(file=io.StringIO(), width=10)
    console.print(plain_table(["path"], [["plane 0 spine 1"]], left={0}, wrap=True))
    assert isinstance(console.file, io.StringIO)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == ["path", "plane 0", "spine 1"]


def test_where_there_is_no_terminal_a_line_may_be_long(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(plain_table(["heading"], [["x" * 190]], left={0}))
    assert "x" * 190 in capsys.readouterr().out
