# SPDX-License-Identifier: BSD-2-Clause
"""Which answer a request brought about, and how long after it that came."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.records import NAK, SACK
from mrc.capture.frames import I64
from mrc.capture.rows import Rows


class RoundTrips(NamedTuple):
    """Data packets and the SACKs they triggered, int64 [n] each: time of the SACK, index of the transmission,
    nanoseconds between the two, index of the answer."""

    time: I64
    transmission: I64
    ns: I64
    answer: I64


def round_trips(requests: Rows, answers: Rows, mrc: bool) -> RoundTrips:
    """`requests` in order of PSN, then time."""
    index, answer = triggering(requests, answers) if mrc else asking(requests, answers)
    answered = answers["time"][answer]
    ns = answered - requests["time"][index]
    good = ns >= 0
    order = np.argsort(answered[good], kind="stable")
    return RoundTrips(answered[good][order], index[good][order], ns[good][order], answer[good][order])


def triggering(requests: Rows, answers: Rows) -> tuple[I64, I64]:
    """The transmission that triggered each SACK, and the SACK: same PSN, EV and rtx, when there is just one such, of
    several before it. `requests` in order of PSN, then time."""
    places = np.flatnonzero(answers["kind"] == SACK)
    sacks = answers[places]
    begin = np.searchsorted(requests["seq"], sacks["trigger"], "left")
    count = np.searchsorted(requests["seq"], sacks["trigger"], "right") - begin
    index = np.where(count == 1, begin, -1)
    for row in np.flatnonzero(count > 1).tolist():
        one, at = sacks[row], begin[row]
        some = requests[at : at + count[row]]
        alike = (some["ev"] == one["entropy"]) & (some["rtx"] == one["rtx"])
        fitting = np.flatnonzero(alike & (some["time"] <= one["time"]) if alike.sum() > 1 else alike)
        if len(fitting) == 1:
            index[row] = at + int(fitting[0])
    there = index >= 0
    index, sacks, places = index[there], sacks[there], places[there]
    fits = (requests["ev"][index] == sacks["entropy"]) & (requests["rtx"][index] == sacks["rtx"])
    return index[fits], places[fits]


def asking(requests: Rows, answers: Rows) -> tuple[I64, I64]:
    """Of RC: packets that ask for an acknowledgement (or for data), sent once, and the first answer with their PSN.
    `requests` in order of PSN, then time."""
    starts = np.flatnonzero(np.append(True, requests["seq"][1:] != requests["seq"][:-1])[: len(requests)])
    counts = np.diff(np.append(starts, len(requests)))
    asked = starts[(counts == 1) & (requests["ackreq"][starts] | (requests["span"][starts] > 0))]
    asked_seq = requests["seq"][asked]
    taken = np.flatnonzero(answers["kind"] != NAK)
    seqs, at = np.unique(answers["trigger"][taken], return_index=True)
    places = taken[at]
    if not len(seqs) or not len(asked):
        return asked[:0], places[:0]
    where = np.minimum(np.searchsorted(seqs, asked_seq), len(seqs) - 1)
    named = seqs[where] == asked_seq
    return asked[named], places[where[named]]
