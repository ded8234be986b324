# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrc.report.terminal import make_console, plain_table
from mrc.untrusted import printable


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table; the headings are the keys. Numbers stand to the right."""
    shown = [[_shown(row.get(column)) for column in columns] for row in rows]
    left = {number for number, column in enumerate(columns) if not _is_of_numbers([row.get(column) for row in rows])}
    make_console().print(plain_table(columns, shown, left))


def _is_of_numbers(cells: Sequence[object]) -> bool:
    known = [each for each in cells if each is not None]
    return bool(known) and all(isinstance(each, int | float) for each in known)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))
