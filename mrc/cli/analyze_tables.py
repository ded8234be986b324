# SPDX-License-Identifier: BSD-2-Clause
"""What the outputs of `mrc analyze` share on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mrc.capture.texts import seconds_text
from mrc.report.terminal import plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from mrc.capture.analysis.finding import Finding

_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}
_FINDINGS_SHOWN = 40
# Findings that blame a part of the fabric for losses.
_ACCUSING = ("lossy-path", "lossy-plane", "lossy-switch")


def print_findings(console: Console, found: list[Finding], looked_for: str, digits: int = 9) -> None:
    """`looked_for`: what it means that there are none."""
    console.print()
    if not found:
        console.print("findings: none")
        console.print(looked_for, style="dim", soft_wrap=True)
    for each in found[:_FINDINGS_SHOWN]:
        where = f" (packet {each.packet}" if each.packet else ""
        where += f" at {seconds_text(each.time_ns, digits)} s" if where and each.time_ns is not None else ""
        where += ")" if where else ""
        indent = "" if each.cause is None else "  "
        console.print(f"{indent}{each.severity:<8}", style=_SEVERITY_STYLES[each.severity], end="")
        console.print(f"{each.text}{where}", soft_wrap=True, markup=False)
        beside = each.place + (f"; look next at {each.look_next}" if each.look_next else "")
        if beside:
            console.print(f"{indent}{'':8}{beside}", style="dim", soft_wrap=True, markup=False)
    if len(found) > _FINDINGS_SHOWN:
        console.print(f"... and {len(found) - _FINDINGS_SHOWN} more: see --json")
    if any(each.kind in _ACCUSING for each in found):
        from mrc.capture.analysis.path_findings import CHANCE_WORDS

        console.print(CHANCE_WORDS, style="dim", soft_wrap=True)
    console.print()


def print_table(console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> None:
    """Print a table; the first `left` columns and one of states are aligned left."""
    words = {number for number, heading in enumerate(headings) if number < left or heading == "state"}
    console.print(plain_table(headings, rows, words))


def left_out(console: Console, there: int, shown: int) -> None:
    if there > shown:
        console.print(f"... and {there - shown} more: see --json")
    console.print()
