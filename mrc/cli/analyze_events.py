# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` with a lab's event log on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.cli.analyze_tables import left_out, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from mrc.capture.analysis.fabric_events import FabricEvents

_SHOWN = 40


def print_fabric_events(console: Console, found: FabricEvents) -> None:
    """What held at the beginning, then what happened meanwhile."""
    rows = [("before", event.words) for event in found.in_force]
    rows += [(f"{time:.6f}", event.words) for time, event in found.meanwhile]
    if rows:
        print_table(console, ("time s", f"done to the fabric ({found.file})"), rows[:_SHOWN], left=2)
        left_out(console, len(rows), _SHOWN)
