# SPDX-License-Identifier: BSD-2-Clause
"""From a crafted capture to what the analysis says of it."""

from __future__ import annotations

import io
from typing import Any

from mrc.capture.analysis import Analysis, Collector
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.findings import Finding, findings
from mrc.capture.columns import read_columns


def analysis_of(capture: bytes) -> Analysis:
    collector = Collector()
    for columns in read_columns(io.BytesIO(capture), "crafted"):
        collector.add(columns)
    return collector.finish()


def only_direction(capture: bytes) -> Direction:
    (direction,) = analysis_of(capture).directions
    return direction


def path_of(direction: Direction, ev: int) -> PathFigures:
    return next(path for path in direction.figures.paths if path.ev == ev)


def found_in(capture: bytes) -> dict[str, list[Finding]]:
    """Findings by kind."""
    found: dict[str, list[Finding]] = {}
    for each in findings(analysis_of(capture)):
        found.setdefault(each.kind, []).append(each)
    return found


def changes(path: PathFigures) -> list[tuple[int, str, str, int]]:
    """(microseconds, state, trigger, packet) of each change of state."""

    def one(change: dict[str, Any]) -> tuple[int, str, str, int]:
        return round(change["time_s"] * 1e6), change["state"], change["trigger"], change["packet"]

    return [one(change) for change in path.state_changes]
