# SPDX-License-Identifier: BSD-2-Clause
"""A clock that was set forward while a capture ran: looked for where the whole file pauses.

A pause of endpoints looks different. Answers to packets in flight come during it, or all at once behind it, and a
requestor that waited longer than its timer sends again. When the clock was set, each packet in flight is answered
behind the pause, after its usual time and the length of the pause, and PSNs go on. With fewer than two packets in
flight the file does not show which of the two it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.clock import Pause, Step, moved
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, Apart
from mrc.capture.analysis.flows import Flow
from mrc.capture.analysis.records import ANSWER_ROW, REQUEST_ROW
from mrc.capture.analysis.round_trips import asking, triggering
from mrc.capture.analysis.sending import ENDS
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows, joined_rows

# A pause is no part of a flow's usual times when it is so many times as long as nearly all of them.
_ROUND_TRIPS = 20
_LEAST_NS = 200_000
# Without answers that tell, pauses this long are named.
_LONG_NS = 50_000_000
_MOST_STEPS = 3
# With fewer pairs outside of pauses nothing is usual.
_FEWEST_USUAL = 8
# So much further than the middle one nearly all times are from it.
_SPREADS = 3
_MOST_FIT = 0.75
# Of a flow that goes on the next PSN is about here.
_AHEAD = 64
# Where a requestor waited for something, most of the last so many packets before it are sent again.
_LATEST = 4
# So many rows of a flow on each side of a pause are looked at.
_AROUND = 2000


class Forward(NamedTuple):
    """`steps` of the clock, and `unsure`: pauses that may be steps."""

    steps: list[Step]
    unsure: list[Pause]


class _Pairs(NamedTuple):
    """Requests and the answers that they brought about, or a second sighting of them further on (then only the `fabric`
    lies between): both times, and how much longer it took than usual on its path."""

    sent: I64
    answered: I64
    longer: I64
    fabric: Bools

    def across(self, pause: Pause) -> Bools:
        found: Bools = (self.sent <= pause.begin) & (self.answered >= pause.end)
        return found


class _Seen(NamedTuple):
    """The requests of a flow, each packet where it was seen first, in order of PSN, then time; when those that were
    seen twice were seen `again`, where most were (else 0); and the PSNs that are there `more` often than most."""

    first: Rows
    again: I64
    more: I64
    # Of RC all sightings, in order of PSN, then time; else none.
    rows: Rows

    def is_torn(self, pause: Pause) -> bool:
        """Whether a packet may have been seen at one place before a pause and at the other behind it: an odd number of
        sightings is on each side, where two places saw the flow."""
        fresh = np.append(True, self.rows["seq"][1:] != self.rows["seq"][:-1])[: len(self.rows)]
        begins = np.flatnonzero(fresh)
        if not len(begins):
            return False
        before = np.add.reduceat((self.rows["time"] <= pause.begin).astype(np.int64), begins)
        sizes = np.diff(np.append(begins, len(self.rows)))
        return bool((before % 2 & (sizes - before) % 2).any())

    @classmethod
    def of(cls, flow: Flow, pauses: list[Pause]) -> _Seen:
        rows = _near(flow.requests, REQUEST_ROW, pauses)
        names = ("seq", "ev", "rtx") if flow.mrc else ("seq",)
        rows = rows[np.lexsort((rows["time"], *(rows[name] for name in names[::-1])))]
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in names], axis=0)
        begins = np.flatnonzero(fresh)
        sizes = np.diff(np.append(begins, len(rows)))
        usual = int(np.bincount(sizes).argmax()) if len(sizes) else 0
        again = np.where(sizes == 2, rows["time"][np.minimum(begins + 1, len(rows) - 1)], 0)
        more = rows["seq"][begins[sizes > usual]]
        if flow.mrc:
            more = rows["seq"][begins][rows["rtx"][begins]]
        elif len(rows) and usual == 2 and (near_far := _near_and_far(rows, begins, sizes)) is not None:
            # Hop limits tell the places apart: what one has as often as the other was sent as often.
            begins, again = near_far
        else:
            # Of RC nothing but the number of sightings tells a packet sent again from one seen again.
            begins, again = begins[sizes == usual], again[sizes == usual]
        order = np.lexsort((rows["time"][begins], rows["seq"][begins]))
        return cls(rows[begins[order]], again[order] * (usual == 2), more, rows[:0] if flow.mrc else rows)


def _near_and_far(rows: Rows, begins: I64, sizes: I64) -> tuple[I64, I64] | None:
    """Of requests of RC that two places have equally often, of each transmission the row of the first place and the
    time at the other; None where hop limits do not tell two places apart. `rows` in order of PSN, then time, `begins`
    the first of each PSN."""
    hops = np.unique(rows["hop"])
    if len(hops) != 2:
        return None
    group = np.repeat(np.arange(len(begins)), sizes)
    near = rows["hop"] == hops[1]
    alike = (2 * np.add.reduceat(near.astype(np.int64), begins) == sizes)[group]
    # Both in order of PSN, then time: the first at one place is the first at the other.
    one, other = np.flatnonzero(near & alike), np.flatnonzero(~near & alike)
    return one, rows["time"][other]


class _Around(NamedTuple):
    """What a flow shows around a pause: whether its PSNs `go_on` behind it, whether those before it are sent `again`,
    and whether it lies `within` a message that nothing had made the requestor stop in; whether it is of RC."""

    go_on: bool
    again: bool
    within: bool
    rc: bool


def set_forward(flows: list[Flow], pauses: list[Pause]) -> Forward:
    """Judge the longest pauses of a file by all flows in it."""
    found = Forward([], [])
    if not pauses:
        return found
    seen = [_Seen.of(flow, pauses) for flow in flows]
    pairs, tolerance, usual = _all_pairs(flows, seen, pauses)
    for pause in pauses:
        if pause.ns <= max(_LEAST_NS, _ROUND_TRIPS * usual):
            continue
        around = [_around(flow, each, pause) for flow, each in zip(flows, seen, strict=True)]
        there = [each for each in around if each is not None]
        if not there or sum(each.go_on for each in there) < _MOST_FIT * len(there):
            continue
        across = pairs.across(pause)
        ns = _step_of(pairs.sent[across], pairs.longer[across], tolerance)
        if any(each.again and each.rc for each in there):
            # Sightings of what RC sent twice are no pairs.
            ns = None
        if ns is None and pause.ns >= _LONG_NS and (held := across & pairs.fabric).any():
            # No fabric holds packets for so long.
            ns = int(np.median(pairs.longer[held]))
            ns = ns if 2 * ns > pause.ns else None
        if ns is not None and len(found.steps) < _MOST_STEPS:
            # What came behind the pause stays behind it.
            found.steps.append(Step(pause.number, -min(ns, pause.ns - 1), pause.end))
            continue
        for flow, each in zip(flows, seen, strict=True):
            flow.torn |= each.is_torn(pause)
        told = across.any() or any(each.within for each in there)
        held_up = _at_once(pairs.sent[across], pairs.answered[across], pairs.longer[across], tolerance)
        held_up |= any(each.again for each in there)
        # With others in between, this pause alone does not explain it.
        held_up |= bool(across.any()) and int(np.median(pairs.longer[across])) > 2 * pause.ns
        if pause.ns >= _LONG_NS and told and not held_up:
            found.unsure.append(pause)
    return found


def _near(parts: list[Rows], row: np.dtype[np.void], pauses: list[Pause]) -> Rows:
    """The rows of a flow around pauses: of a long capture few, and they show what is usual too."""
    rows = joined_rows(parts, row)
    if len(rows) <= 2 * _AROUND:
        return rows
    latest = np.maximum.accumulate(rows["time"])
    kept = np.zeros(len(rows), np.bool_)
    for pause in pauses:
        at = int(np.searchsorted(latest, pause.end))
        kept[max(0, at - _AROUND) : at + _AROUND] = True
    return rows[kept]


def _all_pairs(flows: list[Flow], seen: list[_Seen], pauses: list[Pause]) -> tuple[_Pairs, int, int]:
    """The pairs of all flows; how far usual times are from those of their path, and how long nearly all take."""
    found: list[tuple[I64, I64, I64, bool]] = []
    for flow, (rows, again, _, _) in zip(flows, seen, strict=True):
        answers = _near(flow.answers, ANSWER_ROW, pauses)
        answers = answers[np.lexsort((answers["number"], answers["time"]))]
        index, places = triggering(rows, answers) if flow.mrc else asking(rows, answers)
        # Of an answer that is there twice the first sighting.
        index, first = np.unique(index, return_index=True)
        found.append((rows["time"][index], answers["time"][places[first]], rows["ev"][index], False))
        # What two places saw was on its way between the two.
        twice = again > 0
        found.append((rows["time"][twice], again[twice], rows["ev"][twice], True))
    made, spreads, usual = [], [0], [0]
    for sent, answered, ev, fabric in found:
        took = answered - sent
        plain = took >= 0
        for pause in pauses:
            plain &= ~((sent <= pause.begin) & (answered >= pause.end))
        if plain.sum() < _FEWEST_USUAL:
            continue
        longer = took - Apart.of_evs(ev, took[plain], ev[plain])
        made.append(np.stack([sent, answered, longer, np.full(len(sent), fabric)]))
        spreads.append(_SPREADS * int(np.median(np.abs(longer[plain]))))
        usual.append(int(np.percentile(took[plain], 99)))
    together = np.concatenate(made, axis=1) if made else np.zeros((4, 0), np.int64)
    return _Pairs(together[0], together[1], together[2], together[3] > 0), max(LEAST_TOLERANCE_NS, *spreads), max(usual)


def _step_of(sent: I64, longer: I64, tolerance: int) -> int | None:
    """By how much the clock was set forward, when all of these took longer by the same. Had they been held up, those
    sent first would have taken longer by as much as they were sent sooner."""
    if len(sent) < 2:
        return None
    middle = int(np.median(longer))
    fits = np.abs(longer - middle) <= tolerance
    apart = int(np.ptp(sent[fits])) if fits.any() else 0
    return middle if fits.sum() >= 2 and fits.mean() >= _MOST_FIT and apart > 2 * tolerance else None


def _at_once(sent: I64, answered: I64, longer: I64, tolerance: int) -> bool:
    """Whether answers to packets sent one after the other came all at once: what had held them up was no clock."""
    if len(sent) < 2 or (np.abs(longer - int(np.median(longer))) <= tolerance).mean() > 0.5:
        return False
    return 2 * int(np.ptp(answered)) < int(np.ptp(sent))


def _around(flow: Flow, seen: _Seen, pause: Pause) -> _Around | None:
    """None of a flow with requests on one side only."""
    time = seen.first["time"]
    before, behind = seen.first[time <= pause.begin], seen.first[time >= pause.end]
    if not len(before) or not len(behind):
        return None
    last, first = before[before["seq"].argmax()], behind[behind["time"].argmin()]
    fresh = behind["seq"][behind["seq"] > last["seq"]]
    go_on = len(fresh) > 0 and int(fresh.min()) <= int(last["seq"]) + _AHEAD
    latest = np.arange(last["seq"] - _LATEST + 1, last["seq"] + 1)
    again = bool(np.isin(latest, seen.more).mean() > 0.5)
    within = not ENDS[last["opcode"]] and not first["rtx"]
    if not flow.mrc:
        # A timer goes back to what is not acknowledged: the next one had been lost on its way here if all before it is.
        within &= first["seq"] == last["seq"] + 1 and not _is_acknowledged(flow, int(last["seq"]), pause)
    return _Around(go_on, again, bool(within), not flow.mrc)


def _is_acknowledged(flow: Flow, seq: int, pause: Pause) -> bool:
    """Whether an answer before the end of a pause covers a PSN."""
    return any(bool(((part["time"] < pause.end) & (part["cack"] >= seq)).any()) for part in flow.answers)


def without_steps(flows: list[Flow], operations: Iterable[list[Rows]], steps: list[Step]) -> None:
    """Take steps out of all times."""
    for rows in [
        *(
            part
            for flow in flows
            for part in (*flow.requests, *flow.answers, *flow.probes, *flow.bad, *flow.congestion_notifications)
        ),
        *(part for parts in operations for part in parts),
    ]:
        rows["time"] = moved(rows["time"], steps)
