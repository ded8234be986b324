# SPDX-License-Identifier: BSD-2-Clause
"""When each PSN was first acknowledged, and first reported missing, by the answers that passed the capture point."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mrc.capture.analysis.records import ACK, NAK, PROBE_ANSWER, RESPONSE, SACK
from mrc.capture.frames import I64
from mrc.capture.rows import Rows

# In place of a time: it did not happen.
NEVER = np.int64((1 << 62) - 1)
_CHUNK = 8192
_BITMAP = 64  # PSNs in a SACK


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """For each PSN of `seqs` (ascending, unwrapped), int64 [n] each: times in ns of the first answer that covers it
    (`at`), of the first SACK that shows it as a hole (`hole_at`); NEVER for none.

    `original_at`: the first SACK that its first transmission triggered, `resent_at` that one of its retransmissions
    triggered. `missing_until`: the latest time at which the responder is known to have been without it (-NEVER where it
    is not known at all). The edge of what arrived whole, as it moved: from `edge_time[i]` on it was `edge[i]`.
    """

    seqs: I64
    at: I64
    hole_at: I64
    original_at: I64
    resent_at: I64
    missing_until: I64
    edge_time: I64
    edge: I64
    holes: int

    def edge_at(self, time: I64, before: int) -> I64:
        """The edge at these times; `before` where nothing had been acknowledged yet."""
        index = np.searchsorted(self.edge_time, time, "right") - 1
        return (
            np.where(index >= 0, self.edge[np.maximum(index, 0)], before)
            if len(self.edge)
            else np.full_like(time, before)
        )

    def edge_passed(self, seq: I64) -> I64:
        """When the edge reached these PSNs; NEVER where it did not."""
        index = np.searchsorted(self.edge, seq, "left")
        reached = index < len(self.edge)
        return (
            np.where(reached, self.edge_time[np.minimum(index, len(self.edge) - 1)], NEVER)
            if len(self.edge)
            else np.full_like(seq, NEVER)
        )


def acknowledged(seqs: I64, answers: Rows, as_of: I64) -> Acknowledged:
    """`seqs` unwrapped PSNs, ascending, each once; `answers` ANSWER_ROWs in order of time, of which each says what the
    responder had at `as_of` (-NEVER where that time is not known)."""
    moving = answers[np.isin(answers["kind"], (SACK, PROBE_ANSWER, ACK, RESPONSE, NAK)) & (answers["cack"] > -1 << 60)]
    edge, edge_time = np.maximum.accumulate(moving["cack"]), moving["time"]
    steps = np.ones(len(edge), np.bool_)
    steps[1:] = edge[1:] > edge[:-1]
    edge, edge_time = edge[steps], edge_time[steps]
    at, hole_at, original_at, resent_at = (np.full(len(seqs), NEVER) for _ in range(4))
    found = Acknowledged(seqs, at, hole_at, original_at, resent_at, np.full(len(seqs), -NEVER), edge_time, edge, 0)
    np.minimum(found.at, found.edge_passed(seqs), out=found.at)
    reporting = np.isin(answers["kind"], (SACK, PROBE_ANSWER))
    sacks, as_of = answers[reporting], as_of[reporting]
    triggered = sacks[sacks["kind"] == SACK]
    _first(found.at, seqs, triggered["trigger"], triggered["time"])
    originals = triggered[~triggered["rtx"]]
    _first(found.original_at, seqs, originals["trigger"], originals["time"])
    resent = triggered[triggered["rtx"]]
    _first(found.resent_at, seqs, resent["trigger"], resent["time"])
    _beyond(found, sacks, as_of)
    mapped = sacks["bitmap"] != 0
    return replace(found, holes=_bitmaps(found, sacks[mapped], as_of[mapped]))


def _beyond(found: Acknowledged, sacks: Rows, as_of: I64) -> None:
    """What lies behind the highest PSN that a SACK shows, and within its bitmap, had not arrived by then either."""
    if not len(sacks):
        return
    last_bit = np.frexp(sacks["bitmap"].astype(np.float64))[1].astype(np.int64) - 1
    shown = np.maximum(sacks["cack"], np.where(sacks["bitmap"] != 0, sacks["base"] + last_bit, sacks["cack"]))
    # The last SACK before the first that shows the PSN or one behind it.
    index = np.searchsorted(np.maximum.accumulate(np.maximum(shown, sacks["trigger"])), found.seqs, "left") - 1
    within = (index >= 0) & (found.seqs < sacks["base"][index] + _BITMAP)
    index = index[within]
    found.missing_until[within] = np.maximum(found.missing_until[within], as_of[index])


def _bitmaps(found: Acknowledged, sacks: Rows, as_of: I64) -> int:
    """Read the bitmaps; how many different PSNs were reported missing."""
    holes: list[I64] = []
    for begin in range(0, len(sacks), _CHUNK):
        some = sacks[begin : begin + _CHUNK]
        octets = np.ascontiguousarray(some["bitmap"]).astype("<u8").view(np.uint8).reshape(-1, 8)
        bits = np.unpackbits(octets, axis=1, bitorder="little").astype(np.bool_)
        row, position = np.nonzero(bits)
        _first(found.at, found.seqs, some["base"][row] + position, some["time"][row])
        # A 0 is news only up to the highest 1.
        below = np.maximum.accumulate(bits[:, ::-1], axis=1)[:, ::-1] & ~bits
        row, position = np.nonzero(below)
        missing = some["base"][row] + position
        beyond = missing > some["cack"][row]
        missing = missing[beyond]
        _first(found.hole_at, found.seqs, missing, some["time"][row][beyond])
        _latest(found.missing_until, found.seqs, missing, as_of[begin : begin + _CHUNK][row][beyond])
        holes.append(np.unique(missing))
    return len(np.unique(np.concatenate(holes))) if holes else 0


def _first(times: I64, seqs: I64, seq: I64, time: I64) -> None:
    """Lower `times` (one for each of `seqs`) to `time` (ascending) where `seq` names a PSN of `seqs`."""
    if not len(seqs) or not len(seq):
        return
    index = np.minimum(np.searchsorted(seqs, seq), len(seqs) - 1)
    news = (seqs[index] == seq) & (time < times[index])
    # Of several for one PSN the last written stays: go backwards, so that it is the earliest.
    times[index[news][::-1]] = time[news][::-1]


def _latest(times: I64, seqs: I64, seq: I64, time: I64) -> None:
    """Raise `times` (one for each of `seqs`) to `time` where `seq` names a PSN of `seqs`."""
    if not len(seqs) or not len(seq):
        return
    index = np.minimum(np.searchsorted(seqs, seq), len(seqs) - 1)
    named = seqs[index] == seq
    np.maximum.at(times, index[named], time[named])
