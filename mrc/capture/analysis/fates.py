"""What became of each transmission: from the capture alone, so with the limits that docs/analyze.md names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER, Acknowledged, acknowledged
from mrc.capture.analysis.records import NACK, NAK, SACK, Rows
from mrc.capture.frames import I64, U8, Bools

ARRIVED, LOST, TRIMMED, REFUSED, SPURIOUS, PENDING, RESENT = range(7)
FATES = ("arrived", "lost", "trimmed", "refused", "spurious", "pending", "resent")
# How a loss came to light, as far as the capture shows.
BY_HOLE, BY_NACK, BY_TIMER = range(3)

_TRIMS = (0x01, 0x02)
# A transmission acknowledged sooner than this share of the shortest round trip is not the one that arrived. Its own
# round trip would be no better measure: SACKs of one turn of the responder come back far apart.
_SOONEST = 0.75


class RoundTrips(NamedTuple):
    """Data packets and the SACKs they triggered, int64 [n] each: time of the SACK, index of the transmission,
    nanoseconds between the two."""

    time: I64
    transmission: I64
    ns: I64


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

    def are(self, fate: int) -> Bools:
        which: Bools = self.fate == fate
        return which

    @property
    def delivered_at(self) -> I64:
        """When each transmission that arrived was acknowledged; its own time where no answer shows it."""
        at = self.acknowledged.at[self.group]
        return np.where(at < NEVER, at, self.requests["time"])


def fates(requests: Rows, answers: Rows, *, mrc: bool, at_receiver: bool) -> Fates:
    """`requests` and `answers` in order of time. `at_receiver`: what the capture saw has arrived."""
    order = np.lexsort((requests["number"], requests["time"], requests["seq"]))
    requests = requests[order]
    seq = requests["seq"]
    first = np.ones(len(seq), np.bool_)
    first[1:] = seq[1:] != seq[:-1]
    group = np.cumsum(first) - 1
    known = acknowledged(seq[first], answers)
    trips = _round_trips(requests, answers) if mrc else _rc_round_trips(requests, first, answers)
    single = np.bincount(group, minlength=int(first.sum())) == 1 if len(group) else np.zeros(0, np.bool_)
    sure = trips.ns[single[group[trips.transmission]]] if len(trips.ns) else trips.ns
    shortest = int(sure.min()) if len(sure) else 0
    fate = np.full(len(seq), ARRIVED, np.uint8)
    found = np.full(len(seq), BY_TIMER, np.uint8)
    noticed = np.full(len(seq), NEVER)
    if len(seq):
        last = np.append(first[1:], True)
        noticed[~last] = requests["time"][1:][~last[:-1]]
        if at_receiver:
            # Where the first transmission came too, the others were spurious, in whatever order they arrived.
            has_original = np.zeros(len(known.seqs), np.bool_)
            has_original[group[~requests["rtx"]]] = True
            fate[np.where(has_original[group] & mrc, requests["rtx"], ~first)] = SPURIOUS
        else:
            by = _arrived_by(requests["time"], first, known, answers, trips, shortest)
            fate[:] = _at_sender(requests, known, group, first, by, shortest, len(answers) > 0, mrc)
            _why(fate, found, requests, known, group, noticed, answers)
    return Fates(requests, known, fate, found, noticed, group, first, trips, shortest)


def _arrived_by(time: I64, first: Bools, known: Acknowledged, answers: Rows, trips: RoundTrips, shortest: int) -> I64:
    """For each PSN the latest time at which the transmission that arrived can have been sent. NEVER where only
    `known.at` shows it.

    A SACK knows of what came before the packet that triggered it. When a responder that stood still goes on, all of its
    SACKs come after the retransmissions its silence caused, but the first of them were triggered by older packets. Not
    of what a hole or a NACK had asked for; and a retransmission may overtake such a packet by a round trip.
    """
    by = np.full(len(known.at), NEVER)
    if len(trips.time):
        second = np.minimum(np.flatnonzero(first) + 1, len(time) - 1)
        asked_for = (known.hole_at < time[second]) | np.isin(known.seqs, answers["trigger"][answers["kind"] == NACK])
        last = np.searchsorted(trips.time, known.at, "right") - 1
        triggered = (last >= 0) & (trips.time[last] == known.at) & ~asked_for
        by[triggered] = time[trips.transmission[last[triggered]]] + shortest
    return by


def _at_sender(
    requests: Rows, known: Acknowledged, group: I64, first: Bools, by: I64, shortest: int, answered: bool, mrc: bool
) -> U8:
    time, starts = requests["time"], np.flatnonzero(first)
    acked_at = known.at[group]
    sent_before = time <= np.minimum(acked_at - int(_SOONEST * shortest), by[group])
    # Position within the PSN's transmissions, and that of the one which arrived.
    position = np.arange(len(time)) - starts[group]
    arrived = np.maximum(np.add.reduceat(sent_before, starts) - 1, 0)
    counts = np.diff(np.append(starts, len(time)))
    never = known.at == NEVER
    arrived[never] = counts[never]
    # The first transmission's own SACK: it arrived, however late.
    arrived[known.original_at < NEVER] = 0
    if not answered:
        arrived = counts - 1
    arrived_here = arrived[group]
    if mrc:
        fate = np.select([position < arrived_here, position == arrived_here], [LOST, ARRIVED], SPURIOUS)
    else:
        fate = _go_back_n(requests, acked_at, first)
    pending = never[group] & answered & (position == counts[group] - 1)
    return np.where(pending, PENDING, fate).astype(np.uint8)


def _go_back_n(requests: Rows, acked_at: I64, first: Bools) -> I64:
    """A responder of RC drops what comes after a gap, so one loss makes the sender repeat everything from there on: the
    packet it goes back to was lost, those behind it are sent once more."""
    time = requests["time"]
    order = np.argsort(time, kind="stable")
    seq = requests["seq"][order]
    # Going back: a repeated PSN at or below the one sent just before it.
    back = np.zeros(len(seq), np.bool_)
    back[1:] = ~first[order][1:] & (seq[1:] <= seq[:-1])
    in_time = ~first & (time <= acked_at)
    fate = np.where(np.append(in_time[1:], False), RESENT, ARRIVED)
    begins = order[back]
    # The row before a repeated one is the same PSN's transmission before.
    fate[begins[in_time[begins]] - 1] = LOST
    fate[~first & ~in_time] = SPURIOUS
    return fate


def _why(fate: U8, found: U8, requests: Rows, known: Acknowledged, group: I64, noticed: I64, answers: Rows) -> None:
    """Mark what was trimmed or refused, and how each loss came to light."""
    lost = fate == LOST
    found[lost & (known.hole_at[group] <= noticed)] = BY_HOLE
    reported = answers[answers["kind"] == NACK]
    naks = answers[(answers["kind"] == NAK) & (answers["code"] == 0x60)]
    for one in naks:
        at = int(np.searchsorted(requests["seq"], one["cack"] + 1))
        if at < len(fate) and fate[at] == LOST and requests["seq"][at] == one["cack"] + 1:
            found[at] = BY_NACK
    begins = np.searchsorted(requests["seq"], reported["trigger"], "left").tolist()
    ends = np.searchsorted(requests["seq"], reported["trigger"], "right").tolist()
    for one, begin, end in zip(reported, begins, ends, strict=True):
        for at in range(end - 1, begin - 1, -1):
            if requests["time"][at] <= one["time"] and requests["ev"][at] == one["entropy"]:
                if fate[at] in (LOST, PENDING):
                    fate[at] = TRIMMED if one["code"] in _TRIMS else REFUSED
                    found[at] = BY_NACK
                break


def _round_trips(requests: Rows, answers: Rows) -> RoundTrips:
    """Each SACK and the transmission that triggered it: same PSN, EV and rtx, when there is just one such before it."""
    sacks = answers[answers["kind"] == SACK]
    begin = np.searchsorted(requests["seq"], sacks["trigger"], "left")
    count = np.searchsorted(requests["seq"], sacks["trigger"], "right") - begin
    index = np.where(count == 1, begin, -1)
    for row in np.flatnonzero(count > 1).tolist():
        one, at = sacks[row], begin[row]
        some = requests[at : at + count[row]]
        fitting = np.flatnonzero(
            (some["ev"] == one["entropy"]) & (some["rtx"] == one["rtx"]) & (some["time"] <= one["time"])
        )
        if len(fitting) == 1:
            index[row] = at + int(fitting[0])
    there = index >= 0
    index, sacks = index[there], sacks[there]
    fits = (requests["ev"][index] == sacks["entropy"]) & (requests["rtx"][index] == sacks["rtx"])
    return _trips(requests, index[fits], sacks["time"][fits])


def _rc_round_trips(requests: Rows, first: Bools, answers: Rows) -> RoundTrips:
    """Of RC: packets that ask for an acknowledgement (or for data), sent once, and the first answer with their PSN."""
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(requests)))
    asking = starts[(counts == 1) & (requests["ackreq"][starts] | (requests["span"][starts] > 0))]
    asking_seq = requests["seq"][asking]
    seqs, at = np.unique(answers["trigger"][answers["kind"] != NAK], return_index=True)
    times = answers["time"][answers["kind"] != NAK][at]
    if not len(seqs) or not len(asking):
        return _trips(requests, asking[:0], times[:0])
    where = np.minimum(np.searchsorted(seqs, asking_seq), len(seqs) - 1)
    named = seqs[where] == asking_seq
    return _trips(requests, asking[named], times[where[named]])


def _trips(requests: Rows, index: I64, answered: I64) -> RoundTrips:
    ns = answered - requests["time"][index]
    good = ns >= 0
    order = np.argsort(answered[good], kind="stable")
    return RoundTrips(answered[good][order], index[good][order], ns[good][order])
