"""Rows of a table for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mrc.untrusted import printable


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, to_stderr: bool = False) -> None:
    """Rows as a table; the headings are the keys. Numbers stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        known = [row[column] for row in rows if row.get(column) is not None]
        right = known and all(isinstance(value, int | float) for value in known)
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        # Names come from peers: they are text, not markup.
        table.add_row(*(Text(_shown(row.get(column))) for column in columns))
    console = Console(file=sys.stderr if to_stderr else sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))
