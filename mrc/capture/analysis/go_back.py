# SPDX-License-Identifier: BSD-2-Clause
"""What became of each transmission of RC: by the order in which they were sent, and by the answers.

A responder of RC drops what comes after a gap, so one loss makes the requestor repeat everything from there on. Of each
time that it goes back this finds the packet that it goes back for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER, Acknowledged
from mrc.capture.analysis.records import ACK, NAK, RESPONSE
from mrc.capture.analysis.round_trips import asking
from mrc.capture.frames import I64, U8, Bools
from mrc.capture.rows import Rows

SEQUENCE_ERROR = 0x60
_MARGIN = 2
_USUALLY = 0.5
# A requestor that sent nothing for so many times what is usual between two packets waited for something.
_PAUSE = 8
# It goes back so many times later than usual after a NAK when it had done so before without that being seen.
_SLOW = 2
# Of a hundred answers so many are no slower than usual.
_NEARLY_ALL = 95
# A fabric reorders when the responder had come to what one in so many NAKs makes the requestor send again.
_OFTEN = 10


class GoneBack(NamedTuple):
    """One element for each transmission: whether it was `lost`, or `refused` for want of a receive, whether a NAK said
    so (`by_nak`), whether it is `again`, sent before, and whether it was sent again although it had arrived
    (`spurious`). `lost_unseen`: how many were gone back for of which the capture has no transmission before."""

    lost: Bools
    refused: Bools
    by_nak: Bools
    again: Bools
    spurious: Bools
    lost_unseen: int
    # Whether the requestor may have gone back without that being seen: to the very packet that was the next to come.
    may_hide: bool = False
    # At the receiver: how many passed and were sent again by a timer. They were lost behind, or dropped behind a gap.
    unsettled: int = 0
    # Elsewhere: which are `lost` for all that is known, as the file ends before an answer tells.
    doubtful: Bools | None = None
    # Packets come out of order: one that a NAK names may have been overtaken.
    reorders: bool = False


def gone_back(
    requests: Rows, known: Acknowledged, group: I64, first: Bools, answers: Rows, at_receiver: bool, behind: bool
) -> GoneBack:
    """`requests` in order of PSN, then time. `behind`: some may have been lost before they came here."""
    order = np.lexsort((requests["number"], requests["time"]))
    again = resent(requests, first, answers)
    found = GoneBack(
        np.zeros(len(requests), np.bool_),
        np.zeros(len(requests), np.bool_),
        np.zeros(len(requests), np.bool_),
        again,
        again & _late(requests, known, group),
        0,
    )
    time, seq, repeated = requests["time"][order], requests["seq"][order], again[order]
    back = repeated.copy()
    back[1:] &= seq[1:] <= seq[:-1]
    begins = np.flatnonzero(back)
    naks = answers[(answers["kind"] == NAK) & (answers["code"] <= SEQUENCE_ERROR)]
    acks = answers[np.isin(answers["kind"], (ACK, RESPONSE))]
    sent = _Sent.of(requests)
    soonest, slowest = _times_of_answers(requests, acks)
    answered_in = soonest or _half_a_reaction(sent, naks)
    # A packet that is refused had come, and all before it.
    telling = answers[np.isin(answers["kind"], (ACK, RESPONSE)) | (answers["kind"] == NAK) & ~_names_a_loss(answers)]
    highest = np.maximum.accumulate(seq) if len(seq) else seq
    edges = np.maximum.accumulate(acks["cack"]) if len(acks) else acks["cack"]
    ends = np.append(begins[1:], len(seq))[: len(begins)]
    earliest = int(seq[0]) if len(seq) else 0
    silent, usual = _silent(requests, acks), int(np.median(np.diff(time))) if len(time) > 1 else 0
    # When it goes back: what was acknowledged then, and how many answers there had been.
    acknowledged_at = known.edge_at(time[begins], int(NEVER)).tolist()
    acks_before = np.searchsorted(acks["time"], time[begins]).tolist()
    # The NAK that made a requestor go back is the latest before it does, and after it did so before.
    nak_at = np.searchsorted(naks["time"], time[begins], "right") - 1
    reactions: list[int] = []
    unsettled, guessed = 0, False
    doubtful = np.zeros(len(requests), np.bool_)
    had_come = 0
    # What goes back alone merely came late, and so did one of two that come one behind the other, without the pause
    # after which a timer goes back.
    following = seq[np.minimum(begins + 1, len(seq) - 1)] - seq[begins] if len(seq) else seq
    once_more = (begins > 0) & (seq[begins - 1] == seq[begins]) & (time[begins] - time[begins - 1] <= _PAUSE * usual)
    going_on = time[begins[((following == 0) | (following == 1)) & ~once_more]]
    unseen, pass_begin, next_head, pass_from, last_first = 0, -int(NEVER), -1, -1, 0
    for begin, end, nak, edge_then, before in zip(
        begins.tolist(), ends.tolist(), nak_at.tolist(), acknowledged_at, acks_before, strict=True
    ):
        last_begin, last_head, last_from = pass_begin, next_head, pass_from
        pass_highest = int(seq[last_first:begin].max()) if begin > last_first else -1
        last_first = begin
        # It goes back to what is not acknowledged; where that does not come here it was lost once more.
        head = min(int(seq[begin]), edge_then + 1)
        pass_begin, next_head, pass_from = int(time[begin]), head, int(seq[begin])
        named = naks[nak] if nak >= 0 and naks["time"][nak] >= last_begin else None
        if named is not None:
            psn, refused = int(named["cack"]) + 1, int(named["code"]) != SEQUENCE_ERROR
            if not refused:
                reactions.append(int(time[begin] - named["time"]))
                answered = int(time[begin]) + soonest
                after = int(np.searchsorted(going_on, answered, "right"))
                until = int(going_on[after]) if after < len(going_on) else int(NEVER)
                # A NAK that names one behind it sooner than what was sent again can have come.
                too_soon = not behind and psn > last_from and last_begin < named["time"] < last_begin + answered_in
                had_come += _had_come(acks, silent, answered, until, psn) or bool(too_soon)
            # The answer and what is sent again may have one time stamp.
            at = sent.last_before(psn, min(int(named["time"]), int(time[begin]) - 1))
            if at >= 0 and (refused or requests["time"][at] >= last_begin or last_head > psn):
                (found.refused if refused else found.lost)[at] = True
                found.by_nak[at] = True
                doubtful[at] = not refused and (not len(telling) or time[begin] + answered_in > telling["time"][-1])
            else:
                unseen += not refused and (psn >= earliest or last_begin > -int(NEVER))
            continue
        until = int(time[end]) if end < len(time) else int(NEVER)
        edge = int(edges[before - 1]) if behind and before else -1
        told = not behind or edge >= highest[begin - 1]
        stalled = begin > 0 and int(time[begin] - time[begin - 1]) > _PAUSE * usual
        run = _Run(
            seq[begin:end],
            time[begin:end],
            int(highest[begin - 1]) if begin else -1,
            until,
            told,
            head,
            stalled,
            at_receiver,
        )
        latest = sent.last_before(head, int(time[begin]) - 1)
        if latest >= 0 and time[begin] - requests["time"][latest] < soonest:
            # Sent again before an answer can have been missed: nothing was lost.
            continue
        cause = _without_nak(run, sent, telling, soonest, slowest, silent)
        # Before anything is acknowledged in the file it does not show where the requestor went back to.
        guessed |= edge_then == NEVER
        arrived = order[begin:end][seq[begin:end] <= cause.arrived]
        found.spurious[arrived] = again[arrived]
        # That something behind all that came here was lost is one of two reasons: the other is a lost answer.
        guessed |= cause.lost is not None and cause.lost > run.highest
        if cause.lost is None or (found.spurious[order[begin]] and cause.lost == seq[begin]):
            continue
        at = sent.last_before(cause.lost, int(time[begin]) - 1)
        if at < 0 or (requests["time"][at] < last_begin and last_head <= cause.lost):
            if at >= 0 and pass_highest < cause.lost:
                # The time before it may have gone back again before it came to this one.
                guessed = True
                continue
            unseen += cause.lost >= earliest or last_begin > -int(NEVER)
        elif at_receiver:
            unsettled += 1
        else:
            found.lost[at] = True
            doubtful[at] = cause.unanswered
    trip = int(np.median(reactions)) if reactions else 0
    reorders = _overtaken(seq) or _OFTEN * had_come > len(reactions)
    slow = any(each > _SLOW * max(trip, usual) for each in reactions)
    may_hide = behind and (guessed or slow or _may_hide(requests[order], max(trip, usual)))
    return found._replace(
        lost_unseen=unseen, may_hide=may_hide, unsettled=unsettled, doubtful=doubtful, reorders=reorders
    )


def _half_a_reaction(sent: _Sent, naks: Rows) -> int:
    """Half of the usual time from the packet behind the one that a NAK names to the NAK; 0 without NAKs. (What came
    behind a gap may be one further behind, or have been sent once more.)"""
    took = []
    for psn, when in zip((naks["cack"] + 2).tolist(), naks["time"].tolist(), strict=True):
        at = sent.last_before(psn, when - 1)
        if at >= 0:
            took.append(when - int(sent.time[at]))
    return int(np.median(took)) // 2 if took else 0


def _overtaken(seq: I64) -> bool:
    """Whether a packet stands alone behind a higher PSN, in order of time, and the next goes on behind that. (A
    requestor that goes back sends all from there on.)"""
    return bool(((seq[1:-1] < seq[:-2]) & (seq[2:] == seq[:-2] + 1)).any())


def _had_come(acks: Rows, silent: I64, begin: int, end: int, named: int) -> bool:
    """Whether an answer is to a packet that the responder had already: it acknowledges no more than the one before it,
    or than the NAK of packet `named` did, or a packet that does not ask (`silent`). After a NAK the responder had
    nothing of what is sent again, unless that came late."""
    low, high = int(np.searchsorted(acks["time"], begin, "right")), int(np.searchsorted(acks["time"], end))
    cack = acks["cack"][max(0, low - 1) : high]
    had = (cack[1:] <= cack[:-1]).any() or (acks["cack"][low:high] < named).any()
    return bool(had or np.isin(acks["cack"][low:high], silent).any())


def _may_hide(requests: Rows, usual: int) -> bool:
    """Whether a long pause within a message, or before what is sent again, is followed by the very next packet: of all
    that the requestor had sent behind it nothing had come here, and a timer went back."""
    seq, time = requests["seq"], requests["time"]
    if len(seq) < 2:
        return False
    follows = seq[1:] > seq[:-1]
    paused = np.diff(time) > _PAUSE * usual
    repeated = seq[1:] <= np.maximum.accumulate(seq)[:-1]
    return bool((follows & paused & (repeated | ~requests["ackreq"][:-1])).any())


class _Sent(NamedTuple):
    """The requests in order of PSN, then time. (Rows are searched only after a column of them has been copied.)"""

    seq: I64
    time: I64

    @classmethod
    def of(cls, requests: Rows) -> _Sent:
        return cls(np.ascontiguousarray(requests["seq"]), np.ascontiguousarray(requests["time"]))

    def last_before(self, psn: int, time: int) -> int:
        """The last transmission of a PSN up to a time, -1 for none."""
        begin, end = self.seq.searchsorted((psn, psn + 1)).tolist()
        at: int = begin + int(self.time[begin:end].searchsorted(time, "right")) - 1
        return at if at >= begin else -1


class _Run(NamedTuple):
    """What is sent from going back on, in order of time; `highest` is the highest PSN sent before, `until` when the
    requestor goes back again."""

    seq: I64
    time: I64
    highest: int
    until: int
    # Whether, as far as is known here, the requestor had nothing above `highest` to wait for.
    told: bool
    # Where the requestor went back to, and whether it had sent nothing for long.
    head: int
    stalled: bool
    at_receiver: bool


class _Cause(NamedTuple):
    """Which PSN was lost (None: only its acknowledgement was), and up to which all had arrived (-NEVER: unknown)."""

    lost: int | None
    arrived: int
    # The file ends before an answer tells.
    unanswered: bool = False


def _without_nak(run: _Run, sent: _Sent, acks: Rows, soonest: int, slowest: int, silent: I64) -> _Cause:
    """A timer goes back to the oldest packet that is not acknowledged, whether it was lost or not. The first answer, or
    an RNR NAK, tells: it covers more than what was sent again can have brought if that had arrived before, or answers a
    packet that did not ask (`silent`), as a responder answers what it has already."""
    head, begin, open_from = run.head, int(run.time[0]), None
    # At the sender what comes at the same time was there before; at the receiver it is the answer.
    at = int(np.searchsorted(acks["time"], begin, "left" if run.at_receiver else "right"))
    while at < len(acks) and acks["time"][at] < run.until:
        covered, when = int(acks["cack"][at]), int(acks["time"][at])
        at += 1
        refused = acks["kind"][at - 1] == NAK
        if covered < head - refused:
            continue
        again = run.seq[run.time <= when - soonest]
        highest = int(again.max()) if len(again) else head - 1
        if refused and covered + 1 > highest:
            return _Cause(None, covered)
        repeated = bool(np.isin(covered, silent))
        # A capture may lack the last ones that had been sent again.
        if not repeated and covered <= highest + _MARGIN:
            return _Cause(head, -int(NEVER))
        if covered >= run.highest:
            # Had something behind that been lost, the requestor would have waited for it.
            return _Cause(run.highest + 1 if not run.told and run.stalled else None, run.highest)
        before = sent.last_before(covered + 1, begin - 1)
        if before < 0 or when - sent.time[before] > slowest:
            return _Cause(covered + 1, covered)
        # The next one may merely be on its way.
        open_from = covered
    if open_from is not None:
        return _Cause(None, open_from)
    return _Cause(head, -int(NEVER), run.until == NEVER)


def _silent(requests: Rows, acks: Rows) -> I64:
    """PSNs of packets that do not ask for an answer, of a responder that nearly always waits until one does. (Where it
    has what is sent again already, it does not wait.)"""
    asked = np.unique(requests["seq"][requests["ackreq"] | (requests["span"] > 0)])
    seqs, times = np.unique(requests["seq"], return_counts=True)
    moving = np.unique(acks["cack"])
    moving = moving[np.isin(moving, seqs)]
    once = moving[np.isin(moving, seqs[times == 1])]
    moving = once if len(once) else moving
    if not len(moving) or np.isin(moving, asked).mean() < _USUALLY:
        return asked[:0]
    return np.setdiff1d(requests["seq"], asked)


def _late(requests: Rows, known: Acknowledged, group: I64) -> Bools:
    """Which were sent after the acknowledgement of their PSN."""
    late: Bools = requests["time"] > known.at[group]
    return late


def _times_of_answers(requests: Rows, acks: Rows) -> tuple[int, int]:
    """Nine tenths of the shortest time from a request that asks, sent once, to an answer, and nine eighths of the
    longest usual one."""
    index, places = asking(requests, acks)
    took = acks["time"][places] - requests["time"][index]
    took = took[took >= 0]
    return (int(took.min()) * 9 // 10, int(np.percentile(took, _NEARLY_ALL)) * 9 // 8) if len(took) else (0, 0)


def _names_a_loss(answers: Rows) -> Bools:
    named: Bools = answers["code"] >= SEQUENCE_ERROR
    return named


def resent(requests: Rows, first: Bools, answers: Rows) -> Bools:
    """Which RC requests, in order of PSN, then time, were sent before: their PSN was seen before, or they are behind a
    higher one among others that are and of which one was, or which a NAK had named. (A lone one behind was overtaken,
    or written late.)"""
    order = np.lexsort((requests["number"], requests["time"]))
    seq, again = requests["seq"][order], ~first[order]
    if not len(seq):
        return again
    behind = again | (seq < np.maximum.accumulate(seq))
    naks = answers[answers["kind"] == NAK]
    again |= behind & np.isin(seq, naks["cack"] + 1)
    run = np.cumsum(np.append(True, behind[1:] != behind[:-1]))
    found = np.zeros(len(seq), np.bool_)
    found[order] = again | (behind & (np.bincount(run, again)[run] > 0))
    return found


def rc_fates(gone: GoneBack, last: Bools, pending: Bools, fates: tuple[int, int, int, int, int, int]) -> U8:
    """The fate of each transmission. `last` of its PSN; `fates`: arrived, lost, refused, spurious, pending, resent."""
    arrived, lost, refused, spurious, is_pending, is_resent = fates
    before_spurious = np.append(gone.spurious[1:], False) & ~last
    found: U8 = np.select(
        [gone.lost, gone.refused, gone.spurious, pending & last, last | before_spurious],
        [lost, refused, spurious, is_pending, arrived],
        is_resent,
    ).astype(np.uint8)
    return found
