# SPDX-License-Identifier: BSD-2-Clause
"""Tables that fit a narrow screen by leaving out whole columns, so that what is shown can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mrc.untrusted import printable

_WIDE = 10_000


def foreign(text: str, style: str = "", **how: Any) -> Text:
    """What an endpoint says of itself and its peers, which may be anybody's words: without markup or escapes."""
    return Text(printable(text), style=style, **how)


@dataclass(frozen=True, slots=True)
class Column:
    """`spare`: where the screen is narrow the column with the greatest goes first; 0 stays. `least`: its width, so that
    columns do not come and go with the values in them."""

    heading: str
    left: bool = False
    spare: int = 0
    least: int = 0


class FittedTable:
    """A table of those of its columns that fit."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[tuple[Sequence[Text], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """A cell for each column. Text of an endpoint's does nothing to the terminal."""
        self._rows.append(([cell if isinstance(cell, Text) else foreign(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = list(range(len(self._columns)))
        while True:
            table = self._table(shown)
            spare = [number for number in shown if self._columns[number].spare]
            width = Measurement.get(console, options.update(max_width=_WIDE), table).maximum
            if width <= options.max_width or not spare:
                break
            shown.remove(max(spare, key=lambda number: self._columns[number].spare))
        yield table

    def _table(self, shown: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for column in (self._columns[number] for number in shown):
            table.add_column(
                column.heading,
                justify="left" if column.left else "right",
                no_wrap=True,
                min_width=column.least or None,
            )
        for cells, style in self._rows:
            table.add_row(*(cells[number] for number in shown), style=style)
        return table
