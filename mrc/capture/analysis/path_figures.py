# SPDX-License-Identifier: BSD-2-Clause
"""The figures of each path and plane of a flow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.capture_point import MIDDLE, RECEIVER
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import ARRIVED, PENDING, REFUSED, TRIMMED
from mrc.capture.analysis.figures import PathFigures, PlaneFigures, Times
from mrc.capture.analysis.flows import Flow, PathSeen
from mrc.capture.analysis.one_way import Later
from mrc.capture.analysis.path_states import GOOD
from mrc.capture.analysis.records import NACK, SACK
from mrc.capture.frames import I64
from mrc.capture.rows import Rows
from mrc.wire.names import NACK_REASONS

CHANGES_KEPT = 1000
# So many packets with a wrong ICRC that name one EV are on it.
_BELIEVED = 3
# A path is slower by as much as a kilometre of fibre takes and by this share of the shortest round trip, or it does
# not matter.
_LEAST_LATER_NS, _MATTERS = 5_000, 0.1
_PLANE = re.compile(r"p(\d+)")


def planes_of(flow: Flow, paths: Mapping[int, PathSeen]) -> dict[int, int | None]:
    """The plane of each EV of `paths`, of requests or of answers: by the name of its first uSID in our plan, else by
    its pair of addresses; None where requests have no such pair."""
    if not flow.mrc:
        return dict.fromkeys(paths)
    named = {ev: _PLANE.match(seen.text) for ev, seen in paths.items()}
    if all(named.values()):
        return {ev: int(match[1]) for ev, match in named.items() if match}
    rank = {frozenset(pair): number for number, pair in enumerate(sorted(flow.pairs))}
    return {ev: rank.get(frozenset(seen.pair)) for ev, seen in paths.items()}


def named(names: Mapping[int, str] | Sequence[str], values: npt.NDArray[Any], otherwise: str = "") -> dict[str, int]:
    """How often each value occurs, by its name."""
    found: dict[str, int] = {}
    for value, count in Counter(values.tolist()).most_common():
        name = names.get(value) if isinstance(names, Mapping) else names[value]
        name = name or f"{otherwise} 0x{value:02x}"
        found[name] = found.get(name, 0) + count
    return found


def paths_of(direction: Direction, flow: Flow, bad: Rows, trimmed: Rows) -> list[PathFigures]:
    """Every EV of the requests, and those that only answers or probes name. `trimmed` are packets that came so."""
    known, answers, probes = direction.fates, direction.answers, direction.probes
    requests = known.requests
    at_receiver = direction.figures.capture_point == RECEIVER
    marks = answers[(answers["kind"] == SACK) & (answers["mark"] > 0)]
    refusals = answers[answers["kind"] == NACK]
    trips, trip_ev = known.round_trips, requests["ev"][known.round_trips.transmission]
    resent, in_vain = known.resent, known.resent_in_vain
    by_ev = Split(requests["ev"])
    trips_by_ev, marks_by_ev = Split(trip_ev), Split(marks["entropy"])
    refusals_by_ev, probes_by_ev = Split(refusals["entropy"]), Split(probes.probes["ev"])
    bad_by_ev, trimmed_by_ev = Split(bad["ev"]), Split(trimmed["ev"])
    known_evs = refusals_by_ev.all | marks_by_ev.all if flow.mrc else set()
    # What has a wrong ICRC may name any EV; several that name one are on it.
    known_evs |= {ev for ev in bad_by_ev.all if len(bad_by_ev[ev]) >= _BELIEVED}
    made = []
    for ev in sorted(by_ev.all | probes_by_ev.all | known_evs):
        seen = flow.paths.get(ev)
        rows, fate = requests[by_ev[ev]], known.fate[by_ev[ev]]
        path = PathFigures(ev, seen.text if seen else "", direction.planes.get(ev))
        path.packets, path.bytes = len(rows), int(rows["length"].sum())
        path.payload_bytes, path.ce_packets = int(rows["payload"].sum()), int(rows["ce"].sum())
        path.resent, path.resent_in_vain = int(resent[by_ev[ev]].sum()), int(in_vain[by_ev[ev]].sum())
        path.trimmed = int((fate == TRIMMED).sum()) + len(trimmed_by_ev[ev])
        path.refused = int((fate == REFUSED).sum())
        if not at_receiver and direction.figures.lost is not None:
            lost = rows[direction.lost[by_ev[ev]]]
            path.lost, path.loss_share = len(lost), len(lost) / len(rows) if len(rows) else None
            path.first_lost_packet = int(lost["number"][lost["time"].argmin()]) if len(lost) else None
        path.bad_icrc_packets, path.marks = len(bad_by_ev[ev]), len(marks_by_ev[ev])
        path.first_bad_icrc_packet = int(bad["number"][bad_by_ev[ev]].min()) if path.bad_icrc_packets else None
        path.nacks = named(NACK_REASONS, refusals["code"][refusals_by_ev[ev]], "reason")
        path.rtt = Times.of(trips.ns[trips_by_ev[ev]])
        answered = probes.answered_at[probes_by_ev[ev]]
        later = flow.copies.later.get(ev)
        if later is not None:
            path.one_way_later_ns, path.one_way_spread_ns = later.later, later.spread
            path.is_slower = is_slower(later, direction)
        path.probes, path.probes_answered = len(answered), int((answered < NEVER).sum())
        sent = probes.probes["time"][probes_by_ev[ev]]
        path.probe_rtt = Times.of((answered - sent)[answered < NEVER])
        if not at_receiver:
            path.state, path.outs, path.out_ns = GOOD, 0, 0
        history = direction.histories.get(ev)
        if history is not None:
            path.state, path.outs, path.out_ns = history.state, history.outs, history.out_ns
            path.state_changes = [
                {"time_ns": each.time, "state": each.state, "trigger": each.trigger, "packet": each.number}
                for each in history.changes[:CHANGES_KEPT]
            ]
        if direction.figures.capture_point == MIDDLE and path.probes and not path.outs:
            # The requestor asks about a path that it took out of use: for losses before this place.
            path.state = path.outs = path.out_ns = None
        if len(rows):
            path.first_use_ns, path.last_use_ns = int(rows["time"].min()), int(rows["time"].max())
        made.append(path)
    return made


def is_slower(later: Later, direction: Direction) -> bool:
    """Whether packets come later by more than they vary, and by so much that it matters."""
    matters = later.later >= max(_LEAST_LATER_NS, _MATTERS * (direction.figures.rtt.min_ns or 0))
    return later.is_slower and matters


class Split:
    """The positions of each value in an array."""

    def __init__(self, values: I64) -> None:
        self._order = np.argsort(values, kind="stable")
        kinds, begins = np.unique(values[self._order], return_index=True)
        ends = np.append(begins, len(values))[1:]
        self._spans = dict(zip(kinds.tolist(), zip(begins.tolist(), ends.tolist(), strict=True), strict=True))

    @property
    def all(self) -> set[int]:
        return set(self._spans)

    def __getitem__(self, value: int) -> I64:
        begin, end = self._spans.get(value, (0, 0))
        return self._order[begin:end]


def plane_figures(direction: Direction) -> list[PlaneFigures]:
    figures, known = direction.figures, direction.fates
    requests = known.requests
    arrived = known.are(ARRIVED) | known.are(PENDING) if not len(direction.answers) else known.are(ARRIVED)
    made = []
    for plane in sorted({plane for plane in direction.planes.values() if plane is not None}):
        paths = [path for path in figures.paths if path.plane == plane]
        of_plane = np.isin(requests["ev"], [path.ev for path in paths])
        span_ns = (figures.last_ns or 0) - (figures.first_ns or 0)
        payload = sum(path.payload_bytes for path in paths)
        made.append(
            PlaneFigures(
                plane,
                len(paths),
                sum(path.packets for path in paths),
                payload,
                payload / figures.payload_bytes if figures.payload_bytes else 0.0,
                None if figures.lost is None else sum(path.lost or 0 for path in paths),
                int(requests["payload"][arrived & of_plane].sum()) * 8 / span_ns if span_ns > 0 else None,
            )
        )
    return made
