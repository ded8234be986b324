"""Losses of MRC that the capture does not settle: the packet may have arrived late.

A packet that comes after its retransmission is acknowledged all the same, and that answer shows that it was not lost.
Where packets of a flow are seen to come so late, the answer may come after the end of the file, or be among the packets
that the capture lacks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.fates import BY_NACK, LOST, Fates
from mrc.capture.analysis.records import Rows
from mrc.capture.frames import I64, Bools

# An answer may take so many times what the slowest took.
_SLOWER = 3


class Doubt(NamedTuple):
    """`at_end`: losses so close to the end of the file that the answer may come behind it. `late`: how many packets are
    seen to have come after their retransmission."""

    at_end: Bools
    late: int


def doubt_of_losses(known: Fates, answers: Rows) -> Doubt:
    """At the sender or between."""
    original = known.acknowledged.original_at[known.group]
    late = known.first & ~known.again & (original < NEVER) & (original > known.noticed)
    lost = known.are(LOST) & (known.found != BY_NACK)
    if not late.any() or not lost.any():
        return Doubt(np.zeros(len(lost), np.bool_), int(late.sum()))
    time = known.requests["time"]
    longest = max(int(known.round_trips.ns.max()), int((original - time)[late].max()))
    return Doubt(lost & (time > _end(known.requests, answers) - _SLOWER * longest), int(late.sum()))


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
