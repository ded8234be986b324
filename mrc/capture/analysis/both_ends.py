# SPDX-License-Identifier: BSD-2-Clause
"""What became of each transmission of MRC where the file has the receiver's sightings too.

A packet that came to the receiver was not lost on its way, however late it came and whatever was acknowledged first.
Where the file has all that came there, what did not come was lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mrc.capture.analysis.acknowledged import NEVER, Acknowledged
from mrc.capture.analysis.round_trips import RoundTrips
from mrc.capture.frames import I64, U8, Bools
from mrc.capture.rows import Rows

# A packet may take so many times as long to the receiver as the slowest did.
_SLOWER = 1.5
# And so many times on a path of which no packet has come, for as long as this at least.
MUCH_SLOWER, LEAST_WAIT_NS = 16, 200_000
# A turn of the responder is as long as the longest of so many answers before one and behind it took.
_NEIGHBOURS = 16


class Names(NamedTuple):
    """The constants of `fates`."""

    arrived: int
    lost: int
    spurious: int
    pending: int


class Sent(NamedTuple):
    """Transmissions in order of PSN, then time, and `group`, the index of their PSN. `reached`: when each came to the
    receiver, by the clock of that place; NEVER for those that the file does not have from there. `again_at`: when the
    PSN was sent again."""

    requests: Rows
    group: I64
    reached: I64
    again_at: I64
    refused: Bools

    @property
    def came(self) -> Bools:
        came: Bools = self.reached < NEVER
        return came


class Seen(NamedTuple):
    """The `fate` of each transmission; which of them the receiver's sightings settle; and which came to the receiver
    while nothing shows whether the responder took them (`open`)."""

    fate: U8
    settled: Bools
    open: Bools


def at_both_ends(
    sent: Sent, known: Acknowledged, trips: RoundTrips, fate: U8, last_ns: int, is_whole: bool, names: Names
) -> Seen:
    """`fate` as the sender's side alone shows it, `last_ns` when the last packet was sent. The times in
    `known.missing_until` are those of the receiver's clock. `is_whole`: the file has all that came to the receiver."""
    group, reached, came = sent.group, sent.reached, sent.came
    rows, count = np.arange(len(reached)), len(known.seqs)
    next_reached = _next_reached(sent)
    # Lost behind the receiver's capture: the responder was without it when a later packet came.
    behind = came & (known.missing_until[group] > reached)
    original = ~sent.requests["rtx"] & (known.original_at < NEVER)[group]
    proven = original | (reached > next_reached) | (_had_by(known, trips, reached)[group] < next_reached)
    proven |= next_reached == NEVER
    taken = came & ~sent.refused & (~behind | original) & proven
    first_taken = np.full(count, len(reached))
    np.minimum.at(first_taken, group[taken], rows[taken])
    at = first_taken[group]
    shows = at < len(reached)
    if not is_whole:
        # A transmission that is not there may have come. One that was taken for lost and is there had.
        shows &= (fate[np.minimum(at, len(reached) - 1)] == names.lost) & (rows >= at)
    shows &= fate != names.pending
    by_place = np.select([rows < at, rows == at], [names.lost, names.arrived], names.spurious)
    found = np.where(shows, by_place, fate)
    settled = shows & (rows >= at)
    would_be_there = sent.requests["time"] <= last_ns - _longest_ways(sent)
    if is_whole:
        gone = ~came & (sent.again_at < NEVER) & would_be_there
        found, settled = np.where(gone, names.lost, found), settled | gone
    # From a path of which nothing came yet all may come later.
    unheard_of = ~np.isin(sent.requests["ev"], sent.requests["ev"][came]) & ~would_be_there
    unknown = np.where(came, ~sent.refused & ~behind & ~proven, unheard_of) & (found == names.lost)
    return Seen(found.astype(np.uint8), settled & ~unknown, unknown)


def had_all_before(trips: RoundTrips, reached: I64, answered: I64 | None) -> I64:
    """For each answer the time at the receiver before which everything that came had been read when it was made; -NEVER
    where the file does not show what it answers. `reached` and `answered` as in `fates`.

    A responder reads its ports one after the other, and answers when a turn is over: what had come through another port
    before the packet that it answers may be unread, for as long as a turn takes.
    """
    came = reached[trips.transmission]
    left = np.full(len(came), NEVER) if answered is None else answered[trips.answer]
    seen = (came < NEVER) & (left < NEVER)
    took = np.where(seen, left - came, 0)
    padded = np.pad(took, _NEIGHBOURS)
    turn = sliding_window_view(padded, 2 * _NEIGHBOURS + 1).max(axis=1) if len(took) else took
    return np.where(came < NEVER, came - turn, -NEVER)


def has_all(known: Acknowledged, sent: Sent) -> bool:
    """Whether of every PSN that was acknowledged a transmission is seen at the receiver, and the one that triggered its
    SACK where that is the first."""
    there, original = np.zeros((2, len(known.seqs)), np.bool_)
    there[sent.group[sent.came]] = True
    original[sent.group[sent.came & ~sent.requests["rtx"]]] = True
    return bool(there[known.at < NEVER].all() and original[known.original_at < NEVER].all())


def _next_reached(sent: Sent) -> I64:
    """For each transmission when the first later one of its PSN came to the receiver."""
    found = np.full(len(sent.reached), NEVER)
    for row in np.flatnonzero(sent.again_at < NEVER)[::-1].tolist():
        found[row] = min(sent.reached[row + 1], found[row + 1])
    return found


def _had_by(known: Acknowledged, trips: RoundTrips, reached: I64) -> I64:
    """For each PSN when the packet came of which the SACK was the first to acknowledge it: the responder had it then.
    NEVER where another answer was the first."""
    had = np.full(len(known.seqs), NEVER)
    if len(trips.time):
        last = np.searchsorted(trips.time, known.at, "right") - 1
        fits = (last >= 0) & (trips.time[np.maximum(last, 0)] == known.at)
        had[fits] = reached[trips.transmission[last[fits]]]
    return had


def _longest_ways(sent: Sent) -> I64:
    """For each transmission, by two clocks: as long as the file cannot end before what was sent so much earlier has
    come, or has not. Longer on a path from which nothing came: it may be a slow one."""
    ways = (sent.reached - sent.requests["time"])[sent.came]
    if not len(ways):
        return np.zeros(len(sent.reached), np.int64)
    longest = int(_SLOWER * (abs(int(np.median(ways))) + int(ways.max() - ways.min())))
    ev: I64 = sent.requests["ev"]
    return np.where(np.isin(ev, ev[sent.came]), longest, max(MUCH_SLOWER * longest, LEAST_WAIT_NS))
