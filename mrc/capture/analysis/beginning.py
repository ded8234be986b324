# SPDX-License-Identifier: BSD-2-Clause
"""From where on a capture that began in the middle of a flow has all of it, and what it says of the packets before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER, acknowledged
from mrc.capture.analysis.fates import Fates
from mrc.capture.analysis.records import NACK
from mrc.capture.analysis.sending import STARTS
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows

# Packets so many PSNs behind the first in the file had not passed before it.
_FAR = 64


class Beginning(NamedTuple):
    """`first`: the PSN of the earliest first transmission. (What is sent again later may have been sent first before
    the capture began.) From `whole` on no PSN can have come before the capture began: none is further behind another
    than that. `begun`: no packet that was overtaken stands behind this time; `settled`: nor the answer to one."""

    first: int
    whole: int
    begun: int
    settled: int

    @property
    def in_the_middle(self) -> bool:
        return self.settled > -int(NEVER)


def beginning(known: Fates, mrc: bool) -> Beginning:
    requests = known.requests
    firsts = np.flatnonzero(known.first & ~requests["rtx"] if mrc else known.first)
    if not len(firsts):
        return Beginning(int(NEVER), int(NEVER), 0, 0)
    if not (lone := requests["lone"][firsts]).all():
        # Of two places the far one may show what passed the other before the capture began.
        firsts = firsts[~lone]
    time, number = requests["time"][firsts], requests["number"][firsts]
    soonest = np.flatnonzero(time == time.min())
    earliest = requests[firsts[soonest[number[soonest].argmin()]]]
    begins = not mrc or (not lone.all() and _is_the_first_message(requests, earliest))
    if begins and (mrc or known.in_order or STARTS[earliest["opcode"]]):
        return Beginning(int(earliest["seq"]), int(earliest["seq"]), -int(NEVER), -int(NEVER))
    if begins:
        # Of RC that comes out of order the first in the file may have been overtaken by what passed before it begins.
        settled = int(earliest["time"]) + known.shortest_ns
        return Beginning(int(earliest["seq"]), int(earliest["seq"]), settled, settled)
    order = np.lexsort((number, time))
    seq, time = requests["seq"][firsts[order]], time[order]
    highest = np.maximum.accumulate(seq)
    overtaken_by = np.searchsorted(highest, seq, "right")
    behind = overtaken_by < np.arange(len(seq))
    lag = int((time - time[np.minimum(overtaken_by, len(seq) - 1)])[behind].max(initial=0))
    depth = int((highest - seq).max())
    begun = int(time[0]) + lag
    return Beginning(int(seq[0]), int(seq[0]) + depth, begun, begun + int(known.round_trips.ns.max(initial=0)))


def _is_the_first_message(requests: Rows, earliest: np.void) -> bool:
    """Whether the file has the first message of a flow of MRC from its beginning. A file that lacks the first packet
    began behind it, unless it lacks packets further on too; so did one that has packets sent again before all others.
    """
    first_message = requests[requests["msn"] == 0]
    again = requests["time"][requests["rtx"]].min(initial=int(NEVER))
    further_on = np.unique(requests["seq"][requests["seq"] >= earliest["seq"] + _FAR])
    has = STARTS[first_message["opcode"]].any() or (np.diff(further_on) > 1).any()
    return bool(earliest["msn"] == 0 and has and earliest["time"] <= again)


def not_seen(known: Fates, answers: Rows, mrc: bool) -> int:
    """How many PSNs up to the acknowledged edge the capture does not have. Each of them was sent, and passed the
    capture by if that ran by then."""
    seqs, edge, begin = known.acknowledged.seqs, known.acknowledged.edge, beginning(known, mrc)
    if not len(seqs) or not len(edge) or edge[-1] < begin.whole:
        return 0
    up_to = int(edge[-1])
    # Nothing is answered sooner: what triggered these had passed before the file begins, and what was sent before it.
    soon = answers["trigger"][answers["time"] < known.requests["time"].min() + known.shortest_ns]
    before = soon[(soon < up_to) & ~np.isin(soon, seqs)]
    begin = begin._replace(whole=max(begin.whole, int(before.max(initial=-NEVER)) + 1))
    whole = max(begin.whole, int(known.acknowledged.edge_at(np.array([begin.settled]), begin.whole - 1)[0]) + 1)
    count = max(0, up_to - whole + 1 - int(np.searchsorted(seqs, up_to, "right") - np.searchsorted(seqs, whole)))
    if not count or not begin.in_the_middle:
        return count
    # What the first answers show had come before.
    early = answers[answers["time"] <= begin.settled]
    if not len(early):
        return count
    up_to = min(up_to, int(early["base"].max()) + 64, int(max(early["trigger"].max(), whole)) + 64)
    unseen = np.setdiff1d(np.arange(whole, up_to + 1), seqs)
    return count - int((acknowledged(unseen, early, np.full(len(early), -NEVER)).at < NEVER).sum())


def lacks_arrivals(known: Fates) -> bool:
    """Of RC that comes in order, at the receiver or between: whether the responder acknowledges what had not passed
    here by then in the order in which it takes packets. Then the capture lacks some, though others of the same PSNs
    are in it."""
    seqs, at, edge = known.acknowledged.seqs, known.acknowledged.at, known.acknowledged.edge
    if not len(edge) or not known.again.any():
        return False
    time = known.requests["time"]
    begins = np.flatnonzero(known.first)
    earliest = max(int(known.requests["seq"][time.argmin()]), int(edge[0]) + 1)
    some = slice(*np.searchsorted(seqs, (earliest, int(edge[-1]) + 1)).tolist())
    ends = np.append(begins[1:], len(time))
    taken = -int(NEVER)
    for begin, end, acknowledged_at in zip(begins[some].tolist(), ends[some].tolist(), at[some].tolist(), strict=True):
        came = begin + int(np.searchsorted(time[begin:end], taken))
        if came == end or time[came] > acknowledged_at:
            return True
        taken = int(time[came])
    return False


def resent_only(known: Fates, answers: Rows, trimmed: Rows, at_receiver: bool, lost_behind: bool) -> int | None:
    """How many PSNs of MRC the capture has retransmissions of and not the first transmission, not even trimmed,
    although it was not acknowledged before. None where one of them may have come before the capture began."""
    begin = beginning(known, True)
    named = answers["trigger"][answers["kind"] == NACK]
    came = np.concatenate([known.requests["seq"][~known.again], trimmed["seq"], named])
    seqs: I64 = known.acknowledged.seqs
    late = known.acknowledged.at < known.requests["time"][known.first]
    alone: Bools = ~np.isin(seqs, came) & ~late & (seqs >= begin.first)
    # What the responder was without after that had not come before, unless packets are lost between here and there.
    missing = (known.acknowledged.missing_until > begin.begun) & (at_receiver and not lost_behind)
    if (alone & (seqs < begin.whole) & ~missing).any():
        return None
    return int(alone.sum())
