# SPDX-License-Identifier: BSD-2-Clause
"""Findings about paths that take longer than others: one way, where two places saw the packets, else there and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import AnyPath, PathFigures
from mrc.capture.analysis.finding import WARNING, Finding, at_packet, of_part, path_name
from mrc.capture.analysis.links import links_of_none, on_links
from mrc.capture.analysis.parts import exactly
from mrc.report.units import measured_s_text, plural

# By round trips a path is slow that takes so many times what the others do. (An answer takes a way of its own.)
SLOW, LEAST_NS = 2.0, 1000
_LEAST_SAMPLES = 20
# So many round trips make a path of answers one on which others can be held against them.
LEAST_OTHERS = 5


def slow_paths(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    slow, quick = [path for path in figures.paths if path.is_slower], not_slower(figures.paths)
    part = exactly(figures.paths, {path.ev for path in slow})
    first = direction.fates.requests[np.isin(direction.fates.requests["ev"], [path.ev for path in slow])]
    ends = "the sender to the receiver" if figures.capture_point == "both" else "one place of capture to the other"
    if part is not None:
        links = links_of_none(slow, quick)
        text = (
            f"{part.name} is slow: packets on its {plural(len(slow), 'path')} take {later(slow)} longer "
            f"{than(quick, ends)}{on_links(links)}"
        )
        at = first[first["time"].argmin()]
        kind = "slow-plane" if part.name.startswith("plane") else "slow-switch"
        weight = max(path.one_way_later_ns or 0 for path in slow) / 1e3
        found = of_part(WARNING, kind, text, figures, at["number"], at["time"], part.evs, weight)
        yield replace(found, links=links)
        return
    for path in slow:
        spread, links = duration(path.one_way_spread_ns or 0), links_of_none([path], quick)
        text = (
            f"path {path_name(path)} is slow: its packets take {later([path])} longer {than(quick, ends)} "
            f"(the middle half of them differ by {spread}){on_links(links)}"
        )
        yield replace(_of(direction, path, text, (path.one_way_later_ns or 0) / 1e3), links=links)
    yield from _by_round_trips(direction)


def not_slower(paths: Sequence[AnyPath]) -> list[AnyPath]:
    """Those of which two places show that their packets take no longer."""
    return [path for path in paths if path.one_way_later_ns is not None and not path.is_slower]


def later(slow: Sequence[AnyPath]) -> str:
    """By how much packets on these come later than those on the quicker paths."""
    least, most = (duration(value(path.one_way_later_ns or 0 for path in slow)) for value in (min, max))
    return least if least == most else f"{least} to {most}"


def than(quick: Sequence[AnyPath], ends: str) -> str:
    """Than which others, and from where to where."""
    on = "the other path" if len(quick) == 1 else f"the {len(quick)} other paths"
    return f"than those on {on} from {ends}, by the copies of both places, whatever their clocks say"


def duration(ns: int) -> str:
    return measured_s_text(ns / 1e9)


def slow_by_round_trips(paths: list[PathFigures]) -> list[tuple[PathFigures, float]]:
    """Paths whose median round trip is far above that of the others, and that (ns)."""
    sampled = [path for path in paths if path.rtt.samples >= _LEAST_SAMPLES]
    found = []
    for path in sampled:
        others = [each.rtt.p50_ns or 0 for each in sampled if each is not path]
        usual = max(float(np.median(others)), LEAST_NS) if others else 0.0
        if others and (path.rtt.p50_ns or 0) > SLOW * usual:
            found.append((path, usual))
    return found


def _by_round_trips(direction: Direction) -> Iterator[Finding]:
    if direction.figures.capture_point == "receiver":
        return
    for path, usual in slow_by_round_trips(direction.figures.paths):
        if path.one_way_later_ns is not None or _by_the_answers(direction, path.ev):
            # Both places saw how long its packets take; or it is the answers that took long.
            continue
        longer = f"half of its round trips take longer than {duration(path.rtt.p50_ns or 0)}"
        text = f"path {path_name(path)} is slow: {longer}, on the others {measured_s_text(usual / 1e9)}"
        yield _of(direction, path, text, (path.rtt.p50_ns or 0) / usual)


def _by_the_answers(direction: Direction, ev: int) -> bool:
    """Whether the round trips of a path take no longer than those of others that were answered on the same paths, as
    far as enough of them were."""
    trips = direction.fates.round_trips
    back = direction.answers["ev"][trips.answer]
    here = direction.fates.requests["ev"][trips.transmission] == ev
    times = []
    for each in np.unique(back[here]).tolist():
        mine, others = trips.ns[here & (back == each)], trips.ns[~here & (back == each)]
        if len(others) >= LEAST_OTHERS:
            times.append(mine / max(float(np.median(others)), LEAST_NS))
    held = np.concatenate(times) if times else np.zeros(0)
    return len(held) >= _LEAST_SAMPLES and float(np.median(held)) <= SLOW


def _of(direction: Direction, path: PathFigures, text: str, weight: float) -> Finding:
    """With the first packet on the path."""
    rows = direction.fates.requests[direction.fates.requests["ev"] == path.ev]
    first = rows[rows["time"].argmin()]
    return at_packet(WARNING, "slow-path", text, direction.figures, first["number"], first["time"], path, weight)
