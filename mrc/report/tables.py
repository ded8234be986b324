# SPDX-License-Identifier: BSD-2-Clause
"""Tables as lines of text: columns as wide as their widest cell, or Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Write rows of equal length as lines, headings among them; the columns numbered in `right` stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table of Markdown as lines."""
    lines = [_between_bars(headings), "|" + "---|" * len(headings)]
    return lines + [_between_bars(row) for row in rows]


def _between_bars(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
