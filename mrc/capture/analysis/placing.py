# SPDX-License-Identifier: BSD-2-Clause
"""Packets seen at one of two places only: where that was, and when the place near the requestor would have seen them.

Of most packets of a merged capture both sightings are there, so how far apart the two are is known. A packet of which
one sighting is missing may be the one of the far place. Where hop limits do not say so, the way does: no answer comes
sooner than the shortest round trip, and a requestor sends in order.
"""

from __future__ import annotations

import numpy as np

from mrc.capture.analysis.distances import Apart
from mrc.capture.analysis.flows import Copies
from mrc.capture.analysis.round_trips import asking, triggering
from mrc.capture.frames import I64
from mrc.capture.rows import Rows

# Sooner than this share of the shortest round trip nothing is answered.
_SOONEST = 0.75
# PSNs further apart are not sent one behind the other.
_FAR = 64
# At the beginning of a file the far place shows what passed the near one before.
_BEGINNING = 3


def placed(requests: Rows, answers: Rows, copies: Copies, mrc: bool) -> tuple[Rows, Rows]:
    """Both in order of the time at which the place near the requestor saw them, or would have."""
    there, back = copies.there, copies.back
    if there is None or back is None or not copies.of_two_places:
        requests["lone"] = answers["lone"] = False
        return requests, answers
    if there.far:
        far, far_back = np.isin(requests["hop"], list(there.far)), np.isin(answers["hop"], list(back.far))
        requests["time"][far] -= there.gaps(requests["ev"][far])
        answers["time"][far_back] += back.usual
    else:
        _place_answered(requests, answers, there, back, mrc)
        _place_in_order(requests, there, mrc)
    return _in_order(requests), _in_order(answers)


def _in_order(rows: Rows) -> Rows:
    if (rows["time"][1:] >= rows["time"][:-1]).all():
        return rows
    return rows[np.lexsort((rows["number"], rows["time"]))]


def _place_answered(requests: Rows, answers: Rows, there: Apart, back: Apart, mrc: bool) -> None:
    """Move what is answered too soon to the time of the place near the requestor."""
    if not requests["lone"].any() and not answers["lone"].any():
        return
    order = np.lexsort((requests["time"], requests["seq"]))
    index, places = triggering(requests[order], answers) if mrc else asking(requests[order], answers)
    index = order[index]
    if mrc:
        # What nothing in the file triggered: at the far place at the latest.
        unknown = answers["lone"].copy()
        unknown[places] = False
        answers["time"][unknown] += back.usual
    some, replies = requests[index], answers[places]
    took = replies["time"] - some["time"]
    alone, alone_back = some["lone"], replies["lone"]
    known = ~alone & ~alone_back
    if not known.any():
        return
    usual = Apart.of_evs(some["ev"], took[known], some["ev"][known])
    short = (took < _SOONEST * usual) & ~known
    if not short.any():
        return
    ahead, behind = there.gaps(some["ev"]), np.full(len(index), back.usual)
    # By which of the two shifts, or both, the round trip comes nearest to the usual one.
    trips = np.stack([took + behind, took + ahead, took + ahead + behind])
    off = np.abs(trips - usual).astype(np.float64)
    off[0, ~alone_back] = off[1, ~alone] = np.inf
    off[2, ~(alone & alone_back)] = np.inf
    best = off.argmin(axis=0)
    shifted, shifted_back = short & (best != 0), short & (best != 1)
    requests["time"][index[shifted]] -= ahead[shifted]
    requests["lone"][index[shifted]] = False
    answers["time"][places[shifted_back]] += back.usual
    answers["lone"][places[shifted_back]] = False


def _place_in_order(requests: Rows, there: Apart, mrc: bool) -> None:
    """Move first transmissions that stand behind higher PSNs, and would not at the place near the requestor."""
    alone = requests["lone"] & ~requests["rtx"]
    if not alone.any():
        return
    others = requests[~requests["lone"] & ~requests["rtx"]]
    rows = np.flatnonzero(alone)
    seq, time = requests["seq"][rows], requests["time"][rows]
    gaps = there.gaps(requests["ev"][rows])
    here, moved = _distance(others, seq, time, mrc), _distance(others, seq, time - gaps, mrc)
    # At the beginning of the file nothing stands before: one that is not followed by the next PSN is of the far place,
    # unless it follows the one before.
    first = time < requests["time"][0] + np.abs(gaps)
    before = np.searchsorted(others["time"], time) - 1
    first &= (before < 0) | (others["seq"][np.maximum(before, 0)] != seq - 1) if len(others) else True
    earlier = (moved < here) | (first & (moved == here) & (here > 2))
    requests["time"][rows[earlier]] -= gaps[earlier]


def _distance(others: Rows, seq: I64, time: I64, mrc: bool) -> I64:
    """How far the PSNs before and behind are from these, if these are sent at such a time; a long way if they are not
    below and above. Of MRC, which sends nothing again under the first PSN, the highest before."""
    around = others["seq"]
    if not len(around):
        return np.zeros(len(seq), np.int64)
    before = np.maximum.accumulate(around) if mrc else around
    at = np.searchsorted(others["time"], time)
    ahead = np.where(at > 0, seq - before[np.maximum(at - 1, 0)], 1)
    behind = np.where(at < len(around), around[np.minimum(at, len(around) - 1)] - seq, 1)
    total: I64 = np.where((ahead > 0) & (ahead < _FAR), ahead, _FAR) + np.where(
        (behind > 0) & (behind < _FAR), behind, _FAR
    )
    return total


def is_in_order(requests: Rows, answers: Rows, apart_ns: int) -> bool:
    """Whether the requests of RC, at the sender or put together from two places `apart_ns`, are what a requestor sends:
    in order of PSN until it goes back to what is not acknowledged. If not, the capture lacks packets, or copies were
    taken for others."""
    begin = requests["time"][0] + _BEGINNING * abs(apart_ns) if len(requests) else 0
    requests = requests[requests["time"] > begin]
    seq, time = requests["seq"], requests["time"]
    if len(seq) < 2 or not len(answers):
        return True
    moving = answers[answers["cack"] > -1 << 60]
    edge = np.maximum.accumulate(moving["cack"])
    at = np.searchsorted(moving["time"], time[1:], "right") - 1
    begins = np.where(at >= 0, edge[np.maximum(at, 0)] + 1, seq[1:]) if len(edge) else seq[1:]
    back = seq[1:] <= seq[:-1]
    holes = (seq[1:] > seq[:-1] + 1) & ~requests["span"].any()
    return not ((back & (seq[1:] != begins)) | holes).any()
