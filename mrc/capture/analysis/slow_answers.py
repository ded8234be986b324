# SPDX-License-Identifier: BSD-2-Clause
"""Findings about paths on which answers take longer than on others: one way, where two places saw them, else by the
round trips that end there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import AnyPath
from mrc.capture.analysis.finding import WARNING, Finding, path_name
from mrc.capture.analysis.links import links_of_none, on_links
from mrc.capture.analysis.parts import exactly
from mrc.capture.analysis.slow_paths import LEAST_NS, LEAST_OTHERS, SLOW, duration, later, not_slower, than
from mrc.report.units import percent_text, plural

# By round trips so many have to end on a path, in so many stretches with others between: what holds all answers up for
# a while shows in one stretch. Less likely than this chance gives none that is shorter in as many stretches.
_LEAST_TRIPS, _LEAST_STRETCHES, _CHANCE = 20, 10, 1e-6
# Of the others half are shorter: a slow path moves all round trips. Where an endpoint is busy, when an answer is sent
# and the EV that is its turn go together, and the quickest few may all fall to other EVs.
_LEAST_QUICKER = 0.5


class Slow(NamedTuple):
    """A path of answers: none of `trips` round trips that ended on it was shorter than `shortest_ns`; of those that
    ended on others a share of `quicker_share` was, and the shortest was `others_shortest_ns`."""

    path: AnyPath
    trips: int
    shortest_ns: int
    quicker_share: float
    others_shortest_ns: int


def slow_answers(direction: Direction) -> Iterator[Finding]:
    paths = direction.figures.answer_paths
    compared = [path for path in paths if path.one_way_later_ns is not None]
    if compared:
        yield from _one_way(direction, compared)
    elif direction.figures.capture_point != "receiver":
        yield from _by_round_trips(direction)


def _one_way(direction: Direction, paths: list[AnyPath]) -> Iterator[Finding]:
    figures = direction.figures
    slow, quick = [path for path in paths if path.is_slower], not_slower(paths)
    part = exactly(paths, {path.ev for path in slow})
    ends = "the receiver to the sender" if figures.capture_point == "both" else "one place of capture to the other"
    for some in [slow] if part is not None else [[path] for path in slow]:
        where = f"through {part.name}" if part is not None else f"on path {path_name(some[0])}"
        on = f"on its {plural(len(some), 'path')}" if part is not None else "on it"
        text = (
            f"answers {where} are slow: the {sum(path.packets for path in some):,} {on} take {later(some)} longer "
            f"{than(quick, ends)}{_of_requests(direction)}"
        )
        yield _about(direction, some, quick, text, max(path.one_way_later_ns or 0 for path in some) / 1e3)


def _of_requests(direction: Direction) -> str:
    """Whether requests take longer on some path too."""
    paths = direction.figures.paths
    slower = [path_name(path) for path in paths if path.is_slower]
    if slower:
        return f"; requests take longer too, on {'path' if len(slower) == 1 else 'paths'} {', '.join(slower)}"
    return "; requests take no longer on any path" if not_slower(paths) else ""


def _by_round_trips(direction: Direction) -> Iterator[Finding]:
    for each in slow_by_round_trips(direction):
        text = (
            f"answers on path {path_name(each.path)} are slow: none of the {plural(each.trips, 'round trip')} that end "
            f"there takes less than {duration(each.shortest_ns)}; of those that end on other paths "
            f"{percent_text(each.quicker_share)} do, and the shortest takes {duration(each.others_shortest_ns)}"
        )
        yield _about(direction, [each.path], [], text, each.shortest_ns / max(each.others_shortest_ns, LEAST_NS))


def slow_by_round_trips(direction: Direction) -> list[Slow]:
    """Paths of answers on which the shortest round trip is far above that on the others, and more than chance gives.

    Round trips of requests on one path are held against each other, so that what a path of requests adds is the same,
    and those of one time, so that a queue that held up all is none of the path.
    """
    known, found = direction.fates, []
    trips = known.round_trips
    if not direction.figures.rtt.samples:
        return []
    back, there = direction.answers["ev"][trips.answer], known.requests["ev"][trips.transmission]
    for path in direction.figures.answer_paths:
        if path.rtt.samples < _LEAST_TRIPS:
            continue
        here = back == path.ev
        stretches = int((here[1:] & ~here[:-1]).sum()) + int(here[:1].sum())
        if stretches < _LEAST_STRETCHES:
            continue
        first, last = np.flatnonzero(here)[[0, -1]].tolist()
        here, ns, of = here[first : last + 1], trips.ns[first : last + 1], there[first : last + 1]
        cells = [(ns[here & (of == ev)], ns[~here & (of == ev)]) for ev in np.unique(of[here]).tolist()]
        cells = [(mine, others) for mine, others in cells if len(others) >= LEAST_OTHERS]
        count = sum(len(mine) for mine, _ in cells)
        if count < _LEAST_TRIPS:
            continue
        shortest, of_others = (int(min(cell[at].min() for cell in cells)) for at in (0, 1))
        longer = sum(len(mine) * float((others >= shortest).mean()) for mine, others in cells) / count
        quicker = 1 - longer >= _LEAST_QUICKER and longer**stretches < _CHANCE
        if shortest > SLOW * max(of_others, LEAST_NS) and quicker:
            found.append(Slow(path, count, shortest, 1 - longer, of_others))
    return found


def _about(
    direction: Direction, slow: Sequence[AnyPath], quick: Sequence[AnyPath], text: str, weight: float
) -> Finding:
    """With the first answer on these paths."""
    evs = tuple(path.ev for path in slow)
    rows = direction.answers[np.isin(direction.answers["ev"], evs)]
    first, links = rows[rows["time"].argmin()], links_of_none(slow, quick) if quick else ()
    name, text = direction.figures.name, text + on_links(links, "receiver")
    packet, time_ns = int(first["number"]), int(first["time"])
    return Finding(WARNING, "slow-answers", text, name, None, packet, time_ns, weight, evs=evs, links=links)
