# SPDX-License-Identifier: BSD-2-Clause
"""Tables on a terminal, drawn with rich, which is imported with the first of them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Where the output is no terminal, its lines are as long as they need be up to this.
_WIDTH_ELSEWHERE = 200


def make_console() -> Console:
    """Make a console on stdout that colours no words of its own choice."""
    from rich.console import Console

    made = Console(file=sys.stdout, highlight=False)
    if not made.is_terminal:
        made.width = _WIDTH_ELSEWHERE
    return made


def plain_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int], *, wrap: bool = False
) -> Table:
    """Make a table without a frame; the columns numbered in `left` are aligned left, the others right.

    Cells are text, not markup. One that is too long for the terminal is cut, or with `wrap` folded between words.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="left" if number in left else "right", no_wrap=not wrap)
    for row in rows:
        made.add_row(*map(Text, row))
    return made
