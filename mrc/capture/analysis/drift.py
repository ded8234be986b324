# SPDX-License-Identifier: BSD-2-Clause
"""Two clocks that drift apart: how the distance of copies changes while a flow goes on.

Requests and answers go opposite ways: where one clock goes faster, the distance of the one grows as much as that of the
other shrinks. A queue that fills changes one of the two alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, Apart, Way
from mrc.capture.frames import I64
from mrc.capture.rows import Rows

# Fewer packets seen twice show no change, nor do those of which one in two is off by a good part of it.
_FEWEST = 12
_SPREADS = 2
_PARTS = 6
# No clock gains more; times that are junk do.
_MOST = 0.5
# So far the two changes may be from each other.
_ALIKE = 2.0


class Drift(NamedTuple):
    """The clock of the place near the responder gains `gain` nanoseconds in a nanosecond from `begin` on, `ns` in the
    whole flow; it is `taken_out` where hop limits tell that place's sightings apart."""

    gain: float
    ns: int
    taken_out: bool
    begin: int = 0

    def gained(self, time: I64) -> I64:
        return np.round(self.gain * (time - self.begin)).astype(np.int64)


class _Change(NamedTuple):
    """By how much the distance of copies changes in a nanosecond, from when to when; how far single ones are from that
    (`spread`), and how far the distance `varies` from time to time, beyond what it does at one."""

    gain: float
    begin: int
    end: int
    spread: int
    varies: int


def without_drift(requests: Rows, key: I64, answers: Rows, key_back: I64) -> tuple[Drift | None, Rows, Rows]:
    """Both in order of time, changed in place where the drift can be taken out; None where clocks do not drift."""
    way, way_back = _way(requests, key), _way(answers, key_back)
    there, back = _change(requests, key, way), _change(answers, key_back, way_back)
    if there is None or back is None:
        return None, requests, answers
    told = way is not None and way_back is not None
    # Where nothing tells the places apart a clock that overtakes the other turns the change round.
    varies = None if told or there.varies <= 2 * LEAST_TOLERANCE_NS else Drift(0.0, there.varies, False)
    gain, span = (there.gain - back.gain) / 2, there.end - there.begin
    if abs(gain) > _MOST:
        return varies, requests, answers
    total = round(gain * span)
    if there.gain * back.gain >= 0 or abs(total) <= max(
        2 * LEAST_TOLERANCE_NS, _SPREADS * (there.spread + back.spread)
    ):
        return varies, requests, answers
    if not 1 / _ALIKE < there.gain / -back.gain < _ALIKE:
        return varies, requests, answers
    if way is None or way_back is None:
        return Drift(gain, total, False), requests, answers
    # An answer that comes to the place further along its way comes to the requestor.
    drift = Drift(gain, total, True, there.begin)
    for rows, far in ((requests, way.far), (answers, ~way_back.far)):
        rows["time"][far] -= drift.gained(rows["time"][far])
    return drift, _in_order(requests), _in_order(answers)


def _in_order(rows: Rows) -> Rows:
    return rows[np.lexsort((rows["number"], rows["time"]))]


def _way(rows: Rows, key: I64) -> Way | None:
    return Way.of(rows["hop"], rows["time"], key, np.argsort(key, kind="stable"), None, rows["ev"])


def _change(rows: Rows, key: I64, way: Way | None) -> _Change | None:
    """By the packets that are there twice: the middle of the first third of them against that of the last."""
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    begins = np.flatnonzero(np.append(True, sorted_key[1:] != sorted_key[:-1])[: len(key)])
    twice = begins[np.diff(np.append(begins, len(key))) == 2]
    if len(twice) < _FEWEST or 2 * len(twice) < len(begins):
        return None
    one, other = order[twice], order[twice + 1]
    if way is not None:
        one, other = np.where(way.far[one], other, one), np.where(way.far[one], one, other)
    time, gap = rows["time"][one], rows["time"][other] - rows["time"][one]
    if "ev" in (rows.dtype.names or ()):
        # Where a requestor avoids a slow path from some time on, the others are no clock that goes faster.
        gap = gap - Apart.of_evs(rows["ev"][one], gap, rows["ev"][one])
    by_time = np.argsort(time, kind="stable")
    time, gap = time[by_time], gap[by_time]
    third = len(time) // 3
    first, last = np.median(gap[:third]), np.median(gap[-third:])
    apart = float(np.median(time[-third:]) - np.median(time[:third]))
    if apart <= 0:
        return None
    gain = float(last - first) / apart
    spread = int(np.median(np.abs(gap - first - gain * (time - np.median(time[:third])))))
    parts = np.array_split(gap, _PARTS)
    middles = np.array([np.median(part) for part in parts])
    within = np.median(np.concatenate([np.abs(part - np.median(part)) for part in parts]))
    varies = int(np.ptp(middles) - _SPREADS * _SPREADS * within)
    return _Change(gain, int(time[0]), int(time[-1]), spread, varies)
