# SPDX-License-Identifier: BSD-2-Clause
"""What became of each transmission: from the capture alone, so with the limits that docs/analyze.md names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER, Acknowledged, acknowledged
from mrc.capture.analysis.both_ends import (
    LEAST_WAIT_NS,
    MUCH_SLOWER,
    Names,
    Sent,
    at_both_ends,
    had_all_before,
    has_all,
)
from mrc.capture.analysis.go_back import gone_back, rc_fates, resent
from mrc.capture.analysis.records import NACK
from mrc.capture.analysis.round_trips import RoundTrips, round_trips
from mrc.capture.frames import I64, U8, Bools
from mrc.capture.rows import Rows

ARRIVED, LOST, TRIMMED, REFUSED, SPURIOUS, PENDING, RESENT = range(7)
FATES = ("arrived", "lost", "trimmed", "refused", "spurious", "pending", "resent")
# How a loss came to light, as far as the capture shows.
BY_HOLE, BY_NACK, BY_TIMER = range(3)

TRIMS = (0x01, 0x02)
# A transmission acknowledged sooner than this share of the shortest round trip is not the one that arrived. Its own
# round trip would be no better measure: SACKs of one turn of the responder come back far apart.
_SOONEST = 0.75
# A retransmission that stands alone may be answered so many times as soon as that, and no sooner.
_QUICKER = 3
# With fewer round trips an EV's shortest is not known.
_FEWEST_TRIPS = 3
# Of a hundred round trips so many are no slower than usual.
_NEARLY_ALL = 95


@dataclass(frozen=True, slots=True)
class Fates:
    """One element for each transmission (a row of `requests`, which are in order of PSN, then time).

    `fate` is one of the constants, `found` how a loss came to light, `noticed` when (ns; the next transmission of the
    PSN), `group` the index of its PSN in `acknowledged.seqs`, `first` whether it is the first transmission seen.
    """

    requests: Rows
    acknowledged: Acknowledged
    fate: U8
    found: U8
    noticed: I64
    group: I64
    first: Bools
    round_trips: RoundTrips
    shortest_ns: int
    # Sent before, by the rtx bit of MRC and the order of RC.
    again: Bools
    # Of RC: losses that the requestor went back for and of which the capture has no transmission.
    lost_unseen: int
    # Of RC, behind the requestor: whether it may have gone back without that being seen.
    may_hide: bool
    # Of RC at the receiver: how many that passed a timer sent again.
    unsettled: int
    # What may have been lost and may not: by times of two places of which the file does not say which they are, at the
    # receiver where no answer was sent before the packet came again, and of RC where the file ends before an answer.
    doubtful: Bools
    # Of MRC captured at both ends: of which the receiver's sightings show what became of them.
    settled: Bools
    # Of RC: packets come out of order; the rows do, though that may be the capture's doing.
    reorders: bool
    in_order: bool

    def are(self, fate: int) -> Bools:
        which: Bools = self.fate == fate
        return which

    @property
    def resent(self) -> Bools:
        """Which transmissions are followed by another of their PSN: by the path that they took, and not that of the
        retransmission."""
        found = np.zeros(len(self.first), np.bool_)
        found[:-1] = ~self.first[1:]
        return found

    @property
    def resent_in_vain(self) -> Bools:
        """Which of these are followed by a spurious one."""
        found = self.resent
        found[:-1] &= self.fate[1:] == SPURIOUS
        return found

    @property
    def delivered_at(self) -> I64:
        """When each transmission that arrived was acknowledged; its own time where no answer shows it."""
        at = self.acknowledged.at[self.group]
        return np.where(at < NEVER, at, self.requests["time"])


def fates(
    requests: Rows,
    answers: Rows,
    *,
    mrc: bool,
    at_receiver: bool,
    behind: bool = False,
    reached: I64 | None = None,
    answered: I64 | None = None,
) -> Fates:
    """`requests` and `answers` in order of time. `at_receiver`: what the capture saw came as far as the responder;
    `behind`: some may have been lost before they came to it. `reached`: where a second capture at the receiver shows
    it, when each request came there by that place's clock (NEVER: it is not in the file), and `answered`, when each
    answer left."""
    # A first transmission that comes here after its retransmission was sent before it all the same.
    order = np.lexsort((requests["number"], requests["time"], requests["rtx"], requests["seq"]))
    requests = requests[order]
    reached = None if reached is None or not mrc else reached[order]
    seq = requests["seq"]
    first = np.ones(len(seq), np.bool_)
    first[1:] = seq[1:] != seq[:-1]
    group = np.cumsum(first) - 1
    trips = round_trips(requests, answers, mrc)
    as_of = np.full(len(answers), -NEVER)
    as_of[trips.answer] = requests["time"][trips.transmission]
    if at_receiver:
        # A responder that takes its time may have read the packets of another port later than this one.
        as_of[trips.answer] -= trips.ns
    elif reached is not None:
        as_of[trips.answer] = had_all_before(trips, reached, answered)
    known = acknowledged(seq[first], answers, as_of)
    single = np.bincount(group, minlength=int(first.sum())) == 1 if len(group) else np.zeros(0, np.bool_)
    sure = trips.ns[single[group[trips.transmission]]] if len(trips.ns) else trips.ns
    shortest = int(sure.min()) if len(sure) else 0
    fate = np.full(len(seq), ARRIVED, np.uint8)
    found = np.full(len(seq), BY_TIMER, np.uint8)
    noticed = np.full(len(seq), NEVER)
    again = requests["rtx"] if mrc else resent(requests, first, answers)
    lost_unseen, may_hide, unsettled, reorders = 0, False, 0, False
    doubtful, settled = np.zeros((2, len(seq)), np.bool_)
    if len(seq):
        last = np.append(first[1:], True)
        noticed[~last] = requests["time"][1:][~last[:-1]]
        if not mrc:
            gone = gone_back(requests, known, group, first, answers, at_receiver, behind)
            pending = (known.at[group] == NEVER) & (len(answers) > 0 and not at_receiver)
            fate[:] = rc_fates(gone, last, pending, (ARRIVED, LOST, REFUSED, SPURIOUS, PENDING, RESENT))
            found[gone.by_nak] = BY_NACK
            lost_unseen, may_hide, unsettled = gone.lost_unseen, gone.may_hide, gone.unsettled
            doubtful = gone.doubtful if gone.doubtful is not None else doubtful
            reorders = gone.reorders
            if reorders:
                # What it went back for was lost or overtaken.
                doubtful |= gone.lost
                may_hide, unsettled = may_hide or behind, unsettled + at_receiver
        elif at_receiver:
            doubtful = _may_be_lost_behind(requests, known, group, noticed)
            fate[:] = _at_receiver(requests, known, group, first, noticed, answers, doubtful)
            doubtful &= fate == LOST
        else:
            told = _arrived_by(requests, first, known, answers, trips, shortest)
            by = np.full_like(told, NEVER) if _tells_of_later(requests, known, first, trips, shortest, single) else told
            soonest = _soonest(requests, trips, single[group[trips.transmission]], shortest)
            refused = np.zeros(len(seq), np.bool_)
            refused[[at for at, _ in _refused(requests, answers, False)]] = True
            fate[:] = _at_sender(requests, known, group, first, by, soonest, len(answers) > 0, refused)
            lone = requests["lone"] | np.isin(known.at, answers["time"][answers["lone"]])[group]
            missing = _reported_missing(requests, known, group, first, trips)
            if reached is not None:
                missing[:] = False
            if (lone | missing).any():
                sooner = np.select([lone, missing], [np.zeros_like(soonest), soonest // _QUICKER], soonest)
                other = _at_sender(requests, known, group, first, by, sooner, len(answers) > 0, refused)
                doubtful = np.isin(group, group[other != fate])
                fate[:] = other
            if by is not told:
                other = _at_sender(requests, known, group, first, told, soonest, len(answers) > 0, refused)
                doubtful = doubtful | np.isin(group, group[other != fate])
            doubtful = (
                doubtful
                | _came_unseen(requests, known, group, first)
                | _under_way(requests, answers, known, group, trips)
            )
            if reached is not None:
                sent = Sent(requests, group, reached, noticed, refused)
                last_ns = int(requests["time"].max())
                names = Names(ARRIVED, LOST, SPURIOUS, PENDING)
                seen = at_both_ends(sent, known, trips, fate, last_ns, has_all(known, sent), names)
                settled, doubtful = seen.settled, doubtful & ~seen.settled | seen.open
                fate[:] = seen.fate
        if mrc:
            _why(fate, found, requests, known, group, noticed, _refused(requests, answers, at_receiver))
    return Fates(
        *(requests, known, fate, found, noticed, group, first, trips, shortest, again, lost_unseen, may_hide),
        *(unsettled, doubtful, settled, reorders, not reorders),
    )


def _may_be_lost_behind(requests: Rows, known: Acknowledged, group: I64, resent_at: I64) -> Bools:
    """At the receiver: which packets passed and came again before anything that came in between was answered. They were
    lost behind the capture, or had arrived and were not acknowledged yet."""
    time = requests["time"]
    unanswered = (known.at[group] >= resent_at) & (known.missing_until[group] <= time) & (resent_at > time)
    may: Bools = unanswered & (known.original_at[group] == NEVER) & (resent_at < NEVER) & ~requests["rtx"]
    return may


def _at_receiver(
    requests: Rows, known: Acknowledged, group: I64, first: Bools, resent_at: I64, answers: Rows, doubtful: Bools
) -> I64:
    """What was seen has arrived, unless the responder says that it has not: a SACK triggered by a later packet shows a
    hole there that only a resend fills, or a NACK names it. Of several that arrived the first transmission was the one
    that had to."""
    refused = np.zeros(len(requests), np.bool_)
    refused[[at for at, _ in _refused(requests, answers, True)]] = True
    filled = known.at[group] >= resent_at
    # A retransmission is answered at once: not acknowledged by the next one, it did not arrive.
    shown = (known.missing_until[group] > requests["time"]) | requests["rtx"]
    proven = (known.original_at[group] < NEVER) & ~requests["rtx"]
    lost = shown & ~proven & filled & (resent_at < NEVER) | refused | doubtful
    # One whose first transmission the capture missed may have been acknowledged before this one came.
    late = requests["rtx"] & (known.at[group] < requests["time"])
    came = ~lost & ~late
    # Its SACK shows that it came, also where the capture lacks it.
    original: Bools = known.original_at < NEVER
    original[group[came & ~requests["rtx"]]] = True
    before: I64 = np.cumsum(came) - came
    earlier: I64 = before - before[np.flatnonzero(first)][group]
    again = np.where(original[group], requests["rtx"], earlier > 0)
    return np.select([lost, late | again], [LOST, SPURIOUS], ARRIVED)


def _arrived_by(
    requests: Rows, first: Bools, known: Acknowledged, answers: Rows, trips: RoundTrips, shortest: int
) -> I64:
    """For each PSN the latest time at which the transmission that arrived can have been sent. NEVER where only
    `known.at` shows it.

    A SACK knows of what came before the packet that triggered it. When a responder that stood still goes on, all of its
    SACKs come after the retransmissions its silence caused, but the first of them were triggered by older packets. Not
    of what a hole or a NACK had asked for; and a retransmission may overtake such a packet by a round trip. Nor of what
    the capture has retransmissions of only: it may lack what asked for them.
    """
    by, time = np.full(len(known.at), NEVER), requests["time"]
    if len(trips.time):
        second = np.minimum(np.flatnonzero(first) + 1, len(time) - 1)
        asked_for = (known.hole_at < time[second]) | np.isin(known.seqs, answers["trigger"][answers["kind"] == NACK])
        last = np.searchsorted(trips.time, known.at, "right") - 1
        triggered = (last >= 0) & (trips.time[last] == known.at) & ~asked_for & ~requests["rtx"][first]
        by[triggered] = time[trips.transmission[last[triggered]]] + shortest
    return by


def _tells_of_later(
    requests: Rows, known: Acknowledged, first: Bools, trips: RoundTrips, shortest: int, single: Bools
) -> bool:
    """Whether a SACK was the first to tell of a packet, sent once, that had left a round trip and more after the one
    that triggered it."""
    if not len(trips.time):
        return False
    last = np.searchsorted(trips.time, known.at, "right") - 1
    by_sack = single & (last >= 0) & (trips.time[last] == known.at)
    triggered = requests["time"][trips.transmission[last]]
    return bool((by_sack & (requests["time"][first] > triggered + shortest)).any())


def _reported_missing(requests: Rows, known: Acknowledged, group: I64, first: Bools, trips: RoundTrips) -> Bools:
    """Which transmissions are of a PSN whose first one had not come when a packet arrived that was sent too much later
    to have overtaken it, and no SACK shows that it came at last. An answer soon after the resend may be a quick one."""
    if not len(trips.ns):
        return np.zeros(len(requests), np.bool_)
    spread = int(np.percentile(trips.ns, _NEARLY_ALL) - trips.ns.min())
    missing = (known.missing_until > requests["time"][first] + spread) & (known.original_at == NEVER)
    reported: Bools = missing[group]
    return reported


def _soonest(requests: Rows, trips: RoundTrips, sure: Bools, shortest: int) -> I64:
    """For each transmission how soon an answer to it can come: by the shortest round trip on its EV."""
    evs, ev_of = np.unique(requests["ev"], return_inverse=True)
    least = np.full(len(evs), NEVER)
    sampled = ev_of[trips.transmission[sure]]
    np.minimum.at(least, sampled, trips.ns[sure])
    few = np.bincount(sampled, minlength=len(evs)) < _FEWEST_TRIPS
    least[few] = shortest
    soonest: I64 = (_SOONEST * least).astype(np.int64)[ev_of]
    return soonest


def _at_sender(
    requests: Rows,
    known: Acknowledged,
    group: I64,
    first: Bools,
    by: I64,
    soonest: I64,
    answered: bool,
    refused: Bools,
) -> I64:
    time, starts = requests["time"], np.flatnonzero(first)
    sent_before = time <= np.minimum(known.at[group] - soonest, by[group])
    # What is acknowledged by the answer to a retransmission came by one, however soon that seems.
    resent = (known.resent_at == known.at)[group] & requests["rtx"] & (time < known.at[group])
    sent_before |= resent & ~np.logical_or.reduceat(sent_before & requests["rtx"], starts)[group]
    # Position within the PSN's transmissions, and that of the one which arrived: -1 for one that the capture missed.
    position = np.arange(len(time)) - starts[group]
    missed = requests["rtx"][starts]
    arrived = np.maximum(np.add.reduceat(sent_before, starts) - 1, np.where(missed, -1, 0))
    counts = np.diff(np.append(starts, len(time)))
    # What a NACK names did not arrive, however soon the answer came after the next one. Where it names the last, the
    # latest of the others did.
    for at in np.flatnonzero(np.logical_or.reduceat(refused, starts)).tolist():
        while 0 <= arrived[at] < counts[at] - 1 and refused[starts[at] + arrived[at]]:
            arrived[at] += 1
        others = np.flatnonzero(~refused[starts[at] : starts[at] + counts[at]])
        if 0 <= arrived[at] < counts[at] and refused[starts[at] + arrived[at]] and len(others):
            arrived[at] = others[-1]
    never = known.at == NEVER
    arrived[never] = counts[never]
    # The first transmission's own SACK: it arrived, however late.
    arrived[known.original_at < NEVER] = 0
    arrived[(known.original_at < NEVER) & missed] = -1
    if not answered:
        arrived = counts - 1
    arrived_here = arrived[group]
    fate = np.select([position < arrived_here, position == arrived_here], [LOST, ARRIVED], SPURIOUS)
    # The retransmission that came is not in the file: what was sent before it was lost, or came later yet.
    unseen = _came_unseen(requests, known, group, first)
    fate[unseen] = np.where(time < known.at[group], LOST, SPURIOUS)[unseen]
    return np.where(never[group] & answered & (position == counts[group] - 1), PENDING, fate)


def _came_unseen(requests: Rows, known: Acknowledged, group: I64, first: Bools) -> Bools:
    """Which transmissions are of a PSN that came by a retransmission which the capture lacks, with another behind it: a
    SACK says so, and that none had come before."""
    starts = np.flatnonzero(first)
    seen: Bools = np.logical_or.reduceat(requests["rtx"] & (requests["time"] < known.at[group]), starts)
    several = np.diff(np.append(starts, len(requests))) > 1
    by_resend = (known.resent_at == known.at) & (known.at < NEVER) & (known.original_at == NEVER)
    unseen: Bools = several & by_resend & ~seen & ~requests["rtx"][starts]
    return unseen[group]


def _under_way(requests: Rows, answers: Rows, known: Acknowledged, group: I64, trips: RoundTrips) -> Bools:
    """Which transmissions of what nothing acknowledges may have been on their way, or their answers, when the file
    ended."""
    if not len(answers):
        return np.zeros(len(requests), np.bool_)
    waited = max(int(requests["time"].max()), int(answers["time"][-1])) - requests["time"]
    soon = waited <= max(LEAST_WAIT_NS, MUCH_SLOWER * int(trips.ns.max(initial=0)))
    waiting: Bools = soon & (known.at == NEVER)[group]
    return waiting


def _why(
    fate: U8, found: U8, requests: Rows, known: Acknowledged, group: I64, noticed: I64, refused: list[tuple[int, int]]
) -> None:
    """Mark what was trimmed or refused, also of what was sent again in vain, and how each loss came to light."""
    lost = fate == LOST
    found[lost & (known.hole_at[group] <= noticed)] = BY_HOLE
    for at, code in refused:
        if fate[at] != ARRIVED:
            fate[at] = TRIMMED if code in TRIMS else REFUSED
            found[at] = BY_NACK


def _refused(requests: Rows, answers: Rows, at_receiver: bool) -> list[tuple[int, int]]:
    """The transmissions that NACKs name, with the reason: the last of that PSN on that EV before, and with the same rtx
    bit where there is one. (At the sender what a NACK made it send again may have the NACK's time, at the receiver what
    it refuses.)"""
    named = []
    reported = answers[answers["kind"] == NACK]
    begins = np.searchsorted(requests["seq"], reported["trigger"], "left").tolist()
    ends = np.searchsorted(requests["seq"], reported["trigger"], "right").tolist()
    for one, begin, end in zip(reported, begins, ends, strict=True):
        before = requests[begin:end]
        sent = before["time"] <= one["time"] if at_receiver else before["time"] < one["time"]
        on_ev = sent & (before["ev"] == one["entropy"])
        alike = on_ev & (before["rtx"] == one["rtx"])
        fitting = np.flatnonzero(alike if alike.any() else on_ev)
        if len(fitting):
            named.append((begin + int(fitting[-1]), int(one["code"])))
    return named
