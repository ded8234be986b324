# SPDX-License-Identifier: BSD-2-Clause
"""Pages of HTML that are one file: a shell, a style for all of them, tables, and text that cannot become markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape as escape
from importlib.resources import files
from typing import Any

Cell = str | int | float | None


def page(title: str, body: str, *, style: str = "", script: str = "", data: Any = None, asks: bool = False) -> str:
    """Make a page of markup. The title is text; `style` comes behind the style that all pages share.

    `data` is JSON for the script, in the element with the id `data`. `asks`: the script asks the server it came from.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts=bool(script), asks=asks)}">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{resource('mrc.report', 'page.css')}\n{style}\n</style>",
        f"</head>\n<body>\n<main>\n{body}\n</main>",
    ]
    if data is not None:
        # Inside a script element only "</" and "<!--" would end or change it.
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        parts.append(f'<script type="application/json" id="data">{text}</script>')
    if script:
        parts.append(f"<script>\n{script}\n</script>")
    return "\n".join([*parts, "</body>", "</html>", ""])


def policy(*, scripts: bool, asks: bool = False) -> str:
    """Write the policy of a page: what is not in the file may not be loaded or run."""
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    allowed += ["script-src 'unsafe-inline'"] if scripts else []
    return "; ".join(allowed + (["connect-src 'self'"] if asks else []))


def resource(package: str, name: str) -> str:
    """Read a style or a script that lies beside a package's modules."""
    return files(package).joinpath(name).read_text(encoding="utf-8").strip()


def table(
    headings: Sequence[str], rows: Sequence[Sequence[Cell]], left: int, *, mono: int = 0, most: int | None = None
) -> str:
    """Make a table; `left` columns are aligned left, the first `mono` of them in a fixed width.

    Of more than `most` rows the others are counted below it. A table without headings has none.
    """

    def cell(tag: str, index: int, value: Cell) -> str:
        names = " ".join(filter(None, ("l" if index < left else "", "mono" if index < mono and tag == "td" else "")))
        text = "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
        return f"<{tag}{f' class={chr(34)}{names}{chr(34)}' if names else ''}>{escape(text)}</{tag}>"

    lines = ["".join(cell("th", index, heading) for index, heading in enumerate(headings))] if headings else []
    lines += ["".join(cell("td", index, value) for index, value in enumerate(row)) for row in rows[:most]]
    listed = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div class=scroll><table>\n{listed}\n</table></div>{more(len(rows), most)}"


def more(there: int, most: int | None) -> str:
    """Say how many are left out, where any are."""
    return f"<p class=note>and {there - most:,} more</p>" if most is not None and there > most else ""
