# SPDX-License-Identifier: BSD-2-Clause
"""Figures of the paths of answers. The responder chooses these: they need not be the paths of the requests."""

from __future__ import annotations

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import AnyPath, Times
from mrc.capture.analysis.flows import Flow
from mrc.capture.analysis.path_figures import Split, is_slower, planes_of


def answer_paths_of(direction: Direction, flow: Flow) -> list[AnyPath]:
    """Every EV that answers were sent on; none of RC."""
    if not flow.mrc:
        return []
    answers, trips = direction.answers, direction.fates.round_trips
    by_ev, trips_by_ev = Split(answers["ev"]), Split(answers["ev"][trips.answer])
    planes = planes_of(flow, flow.answer_paths)
    made = []
    for ev in sorted(by_ev.all):
        seen, later = flow.answer_paths.get(ev), flow.copies.later_back.get(ev)
        path = AnyPath(ev, seen.text if seen else "", planes.get(ev), len(by_ev[ev]))
        path.rtt = Times.of(trips.ns[trips_by_ev[ev]])
        if later is not None:
            path.one_way_later_ns, path.one_way_spread_ns = later.later, later.spread
            path.is_slower = is_slower(later, direction)
        made.append(path)
    return made
