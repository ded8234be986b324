# SPDX-License-Identifier: BSD-2-Clause
"""Which sighting of a packet that two places saw is that of the place near the requestor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS
from mrc.capture.analysis.flows import ClockOffset
from mrc.capture.analysis.sightings import MOST, Sightings
from mrc.capture.frames import I64, Bools

# Of so many packets of a path such a share shows which place saw them first.
_FEWEST, _NEARLY_ALL = 5, 0.9


class Nearest(NamedTuple):
    """Which of two sightings at places that look alike is the one near the requestor, by time, but for requests or
    answers on some EVs, of which it is the other one; how far the other place's clock is ahead, and which hop limits
    (of requests, of answers) only that one has."""

    last_of_requests: bool = False
    last_of_answers: bool = True
    clock_offset: ClockOffset | None = None
    far_hops: tuple[set[int], set[int]] | None = None
    requests_turned: Sequence[int] = ()
    answers_turned: Sequence[int] = ()


def nearest(there: Sightings, sent: I64, back: Sightings, sent_back: I64) -> Nearest:
    """By hop limits where these differ. Where they do not: the first sighting of a request and the last of an answer,
    unless an answer was seen before its request came to the second place. Then the clock of the second place is
    ahead by more than the way takes, and both were seen first at the same place: the requestor's, when requests are
    further apart than answers by twice the way."""
    seen, seen_back = _ends(there, sent), _ends(back, sent_back)
    if not len(seen.first) or not len(seen_back.first):
        return Nearest()
    ahead, ahead_back = _signed_gaps(there, seen, True), _signed_gaps(back, seen_back, False)
    if ahead is not None and ahead_back is not None:
        offset = ClockOffset.of(-ahead_back[0], ahead[0])
        apart = np.median(ahead[0]) < 0 or np.median(ahead_back[0]) < 0
        return Nearest(clock_offset=offset if apart else None, far_hops=(ahead[1], ahead_back[1]))
    answers, second = back.rows, there.rows[seen.last]
    triggers, first = np.unique(answers["trigger"], return_index=True)
    at = np.minimum(np.searchsorted(triggers, second["seq"]), len(triggers) - 1)
    of_these = triggers[at] == second["seq"]
    # What one place has twice may stand behind its answer too.
    early = answers["time"][first[at]][of_these] < second["time"][of_these] - LEAST_TOLERANCE_NS
    by_path = _nearest_by_path(
        there, seen, back, seen_back, early, second["ev"][of_these], answers["ev"][first[at]][of_these]
    )
    if by_path is not None:
        return by_path
    if not len(early) or early.mean() <= MOST:
        return Nearest()
    gap = second["time"] - there.rows["time"][seen.first]
    gap_back = answers["time"][seen_back.last] - answers["time"][seen_back.first]
    at_sender = bool(np.median(gap) >= np.median(gap_back))
    offset = ClockOffset.of(gap_back, gap) if at_sender else ClockOffset.of(-gap_back, -gap)
    if abs(offset.ns) < LEAST_TOLERANCE_NS:
        # One place that has everything twice.
        return Nearest()
    return Nearest(not at_sender, not at_sender, offset)


def _nearest_by_path(
    there: Sightings, seen: _Ends, back: Sightings, seen_back: _Ends, early: Bools, ev: I64, ev_back: I64
) -> Nearest | None:
    """Where the clock of the second place is behind by more than some paths take and less than others: the first
    sighting of a request is the second place's on the quicker ones alone. Where it is ahead, the first sighting of an
    answer is the requestor's on these alone. `early`: of requests on `ev` and answers on `ev_back`, as in `nearest`.
    None where all paths are alike, or the times contradict it."""
    gap = there.rows["time"][seen.last] - there.rows["time"][seen.first]
    gap_back = back.rows["time"][seen_back.last] - back.rows["time"][seen_back.first]
    found = []
    if quick := _quicker(early, ev, there.rows["ev"][seen.first], gap, int(gap_back.min())):
        signed = np.where(np.isin(there.rows["ev"][seen.first], quick), -gap, gap)
        found.append(Nearest(clock_offset=ClockOffset.of(-gap_back, signed), requests_turned=quick))
    if quick := _quicker(early, ev_back, back.rows["ev"][seen_back.first], gap_back, int(gap.min())):
        signed = np.where(np.isin(back.rows["ev"][seen_back.first], quick), gap_back, -gap_back)
        found.append(Nearest(clock_offset=ClockOffset.of(signed, gap), answers_turned=quick))
    found = [each for each in found if each.clock_offset is not None and each.clock_offset.least is not None]
    return found[0] if len(found) == 1 else None


def _quicker(early: Bools, ev: I64, ev_of_gap: I64, gap: I64, least_other_way: int) -> list[int]:
    """The EVs on which nearly all answers are early and sightings are nearer to each other than those of any packet the
    other way, as two clocks that are apart make them; none where one of the others may be such too, or there are none.
    """
    evs, quick = np.unique(ev_of_gap).tolist(), []
    for each in evs:
        some, is_near = early[ev == each], np.median(gap[ev_of_gap == each]) < least_other_way
        if is_near and len(some) >= _FEWEST and some.mean() >= _NEARLY_ALL:
            quick.append(each)
        elif is_near and not (len(some) >= _FEWEST and some.mean() <= 1 - _NEARLY_ALL):
            return []
    return quick if len(quick) < len(evs) else []


class _Ends(NamedTuple):
    """The first and the last sighting, by row, of transmissions seen more than once."""

    first: I64
    last: I64


def _ends(sightings: Sightings, sent: I64) -> _Ends:
    """By the times of the file."""
    by_time = np.lexsort((sightings.order, sent))
    fresh = np.append(True, sent[by_time][1:] != sent[by_time][:-1])[: len(sent)]
    begins = np.flatnonzero(fresh)
    ends = np.append(begins[1:], len(sent)) - 1 if len(begins) else begins
    rows = sightings.order[by_time]
    several = ends > begins
    return _Ends(rows[begins[several]], rows[ends[several]])


def _signed_gaps(sightings: Sightings, seen: _Ends, forward: bool) -> tuple[I64, set[int]] | None:
    """How much later each packet was seen at the place further along its way, and that place's hop limits; None where
    hop limits do not tell the places apart."""
    rows = sightings.rows
    hop, hop_before = rows["hop"][seen.last], rows["hop"][seen.first]
    moved = hop != hop_before
    if not moved.any() or moved.sum() < MOST * len(moved):
        return None
    gap = (rows["time"][seen.last] - rows["time"][seen.first])[moved]
    hop, hop_before = hop[moved], hop_before[moved]
    later = hop < hop_before
    far, near = np.where(later == forward, hop, hop_before), np.where(later == forward, hop_before, hop)
    return np.where(later, 1, -1) * gap, set(far.tolist()) - set(near.tolist())
