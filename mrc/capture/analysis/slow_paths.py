# SPDX-License-Identifier: BSD-2-Clause
"""Findings about paths that take longer than others: one way, where two places saw the packets, else there and back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import DirectionFigures, PathFigures
from mrc.capture.analysis.finding import WARNING, Finding, at_packet, of_part, path_name
from mrc.capture.analysis.parts import exactly
from mrc.report.units import duration_text, plural

# By round trips a path is slow that takes so many times what the others do. (An answer takes a way of its own.)
SLOW, _LEAST_SAMPLES = 2.0, 20
_LEAST_NS = 1000


def slow_paths(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    slow = [path for path in figures.paths if path.is_slower]
    part = exactly(figures.paths, {path.ev for path in slow})
    first = direction.fates.requests[np.isin(direction.fates.requests["ev"], [path.ev for path in slow])]
    if part is not None:
        least, most = (_duration(value(path.one_way_later_ns or 0 for path in slow)) for value in (min, max))
        by = least if least == most else f"{least} to {most}"
        text = (
            f"{part.name} is slow: packets on its {plural(len(slow), 'path')} take {by} longer {_than(figures, slow)}"
        )
        at = first[first["time"].argmin()]
        kind = "slow-plane" if part.name.startswith("plane") else "slow-switch"
        weight = max(path.one_way_later_ns or 0 for path in slow) / 1e3
        yield of_part(WARNING, kind, text, figures, at["number"], at["time"], part.evs, weight)
        return
    for path in slow:
        later, spread = _duration(path.one_way_later_ns or 0), _duration(path.one_way_spread_ns or 0)
        text = (
            f"path {path_name(path)} is slow: its packets take {later} longer {_than(figures, slow)} "
            f"(the middle half of them differ by {spread})"
        )
        yield _of(direction, path, text, (path.one_way_later_ns or 0) / 1e3)
    yield from _by_round_trips(direction)


def _than(figures: DirectionFigures, slow: list[PathFigures]) -> str:
    """Than which others, and from where to where."""
    others = sum(path.one_way_later_ns is not None and path not in slow for path in figures.paths)
    than = "the other path" if others == 1 else f"the {others} other paths"
    ends = "the sender to the receiver" if figures.capture_point == "both" else "one place of capture to the other"
    return f"than those on {than} from {ends}, by the copies of both places, whatever their clocks say"


def _duration(ns: int) -> str:
    return duration_text(ns / 1e9)


def slow_by_round_trips(paths: list[PathFigures]) -> list[tuple[PathFigures, float]]:
    """Paths whose median round trip is far above that of the others, and that (ns)."""
    sampled = [path for path in paths if path.rtt.samples >= _LEAST_SAMPLES]
    found = []
    for path in sampled:
        others = [each.rtt.p50_ns or 0 for each in sampled if each is not path]
        usual = max(float(np.median(others)), _LEAST_NS) if others else 0.0
        if others and (path.rtt.p50_ns or 0) > SLOW * usual:
            found.append((path, usual))
    return found


def _by_round_trips(direction: Direction) -> Iterator[Finding]:
    if direction.figures.capture_point == "receiver":
        return
    for path, usual in slow_by_round_trips(direction.figures.paths):
        if path.one_way_later_ns is not None:
            # Both places saw how long its packets take.
            continue
        longer = f"half of its round trips take longer than {_duration(path.rtt.p50_ns or 0)}"
        text = f"path {path_name(path)} is slow: {longer}, on the others {duration_text(usual / 1e9)}"
        yield _of(direction, path, text, (path.rtt.p50_ns or 0) / usual)


def _of(direction: Direction, path: PathFigures, text: str, weight: float) -> Finding:
    """With the first packet on the path."""
    rows = direction.fates.requests[direction.fates.requests["ev"] == path.ev]
    first = rows[rows["time"].argmin()]
    return at_packet(WARNING, "slow-path", text, direction.figures, first["number"], first["time"], path, weight)
