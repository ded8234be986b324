# SPDX-License-Identifier: BSD-2-Clause
"""Losses of MRC that the capture does not settle: the packet may have arrived after all.

A packet that comes after its retransmission is acknowledged all the same, and that answer shows that it was not lost.
Where packets of a flow are seen to come so late, the answer may come after the end of the file, or be among the packets
that the capture lacks: few losses on a path, of which many packets come late, may be such. And of a packet that a timer
sent again, and no SACK showed to be missing, nobody can tell whether it was lost or only its answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.fates import BY_NACK, BY_TIMER, LOST, Fates
from mrc.capture.analysis.figures import DirectionFigures
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows

# An answer may take so many times what the slowest took.
_SLOWER = 1.5
# On a path where so many times as many come late.
_OFTEN_LATE = 10
# By chance so many times as many NACKs may be missing as requests, and so many more.
_FEW = 3


class Doubt(NamedTuple):
    """`unsettled`: losses so close to the end of the file that the answer may come behind it, and those that nothing
    but a timer shows. `late`: how many packets are seen to have come after their retransmission."""

    unsettled: Bools
    late: int


def doubt_of_losses(known: Fates, answers: Rows) -> Doubt:
    """At the sender or between."""
    original = known.acknowledged.original_at[known.group]
    late = known.first & ~known.again & (original < NEVER) & (original > known.noticed)
    lost = known.are(LOST) & (known.found != BY_NACK)
    if not lost.any():
        return Doubt(lost, int(late.sum()))
    time, trips = known.requests["time"], known.round_trips
    unsettled = lost & ((known.found == BY_TIMER) & ~_shown_missing(known) | known.doubtful)
    if late.any():
        longest = max(int(trips.ns.max(initial=0)), int((original - time)[late].max()))
        unsettled |= lost & (time > _end(known.requests, answers) - _SLOWER * longest)
        evs, ev_of = np.unique(known.requests["ev"], return_inverse=True)
        late_on, lost_on = (np.bincount(ev_of[which], minlength=len(evs)) for which in (late, lost))
        unsettled |= lost & (_OFTEN_LATE * lost_on <= late_on)[ev_of]
    return Doubt(unsettled & ~known.settled, int(late.sum()))


def with_lost_nacks(doubt: Doubt, known: Fates, figures: DirectionFigures) -> Doubt:
    """Where a capture lacks packets it may lack NACKs: as few losses as that explains may be packets that were trimmed,
    or refused."""
    nacks, lost = sum(figures.nacks.values()), known.are(LOST)
    if figures.transport != "mrc" or not nacks or not figures.not_captured:
        return doubt
    share = figures.not_captured / (figures.not_captured + len(known.acknowledged.seqs))
    most = _FEW + _FEW * nacks * share / (1 - share)
    return doubt if lost.sum() > most else doubt._replace(unsettled=lost)


def _shown_missing(known: Fates) -> Bools:
    """Which transmissions are followed by another that triggered a SACK before anything acknowledged their PSN, so much
    later that it cannot have overtaken them."""
    trips, time = known.round_trips, known.requests["time"]
    if not len(trips.time):
        return np.zeros(len(time), np.bool_)
    latest = np.maximum.accumulate(time[trips.transmission])
    before = np.searchsorted(trips.time, known.acknowledged.at[known.group], "left") - 1
    spread = int(trips.ns.max() - trips.ns.min())
    shown: Bools = (before >= 0) & (latest[np.maximum(before, 0)] > time + spread)
    return shown


def came_too_late(known: Fates, answers: Rows) -> Bools:
    """At the receiver, or between: which PSNs (of `acknowledged.seqs`) may still have come after the end of the file in
    a first transmission, as others came after their retransmission."""
    time, again = known.requests["time"], known.again
    count = len(known.acknowledged.seqs)
    resent, first = np.full(count, NEVER), np.full(count, -NEVER)
    np.minimum.at(resent, known.group[again], time[again])
    np.maximum.at(first, known.group[~again], time[~again])
    behind: I64 = first - resent
    late = (resent < NEVER) & (behind > 0)
    if not late.any():
        return late
    unsettled: Bools = (first == -NEVER) & (resent > _end(known.requests, answers) - _SLOWER * int(behind[late].max()))
    return unsettled


def _end(requests: Rows, answers: Rows) -> int:
    return max(int(rows["time"].max()) for rows in (requests, answers) if len(rows))
