# SPDX-License-Identifier: BSD-2-Clause
"""How a requestor spent its time, and how long its messages took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER, Acknowledged
from mrc.capture.analysis.clock import Pause
from mrc.capture.analysis.fates import Fates
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows
from mrc.wire.opcodes import OPCODES


def _of_opcodes(what: str) -> Bools:
    return np.array([value in OPCODES and bool(getattr(OPCODES[value], what)) for value in range(256)], np.bool_)


STARTS, ENDS = _of_opcodes("starts"), _of_opcodes("ends")


@dataclass(frozen=True, slots=True)
class Pace:
    """Of the time from the first request to the last: `idle_share` with nothing unacknowledged, `waiting_share` after
    a packet that asked for an answer, until it or the next packet came. `stalls_ns` are the times without a packet
    while something was unacknowledged, the longest (`longest_stall_ns`) after packet `stall_after`. `most_in_flight`
    in PSNs."""

    idle_share: float
    waiting_share: float
    stalls_ns: I64
    longest_stall_ns: int
    stall_after: int
    most_in_flight: int


def pace(requests: Rows, known: Acknowledged, unsure: Sequence[Pause] = ()) -> Pace:
    """`requests` of one flow in order of time. Pauses that are `unsure` are no stalls."""
    if len(requests) < 2:
        return Pace(0.0, 0.0, np.zeros(0, np.int64), 0, 0, len(requests))
    time = requests["time"]
    highest = np.maximum.accumulate(requests["seq"])
    in_flight = highest - known.edge_at(time, int(requests["seq"][0]) - 1)
    # When all that had been sent was acknowledged: from then on the requestor had nothing to wait for.
    settled = known.edge_passed(highest[:-1])
    gap = time[1:] - time[:-1]
    busy = np.clip(settled - time[:-1], 0, gap)
    if not len(known.edge):
        busy = gap
    whole = max(1, int(time[-1] - time[0]))
    idle = (gap - busy).sum()
    waiting = busy[requests["ackreq"][:-1]].sum() if len(known.edge) else 0
    for pause in unsure:
        busy[(time[:-1] <= pause.begin) & (time[1:] >= pause.end)] = 0
    longest = int(busy.argmax())
    return Pace(
        float(idle / whole),
        float(waiting / whole),
        busy,
        int(busy[longest]),
        int(requests["number"][longest]),
        max(0, int(in_flight.max())) if len(known.edge) else 0,
    )


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages whose end was seen: `durations_ns` of those whose beginning and acknowledgement were seen too, from the
    first transmission to the acknowledgement of the last PSN; `unfinished` were never acknowledged whole."""

    seen: int
    unfinished: int
    durations_ns: I64
    longest_first_packet: int


def messages(fates: Fates) -> Messages:
    firsts = fates.requests[fates.first]
    starts, ends = firsts[STARTS[firsts["opcode"]]], firsts[ENDS[firsts["opcode"]]]
    done = fates.acknowledged.edge_passed(ends["seq"])
    # The start that belongs to an end is the last one not behind it, unless another message ends between them.
    at = np.searchsorted(starts["seq"], ends["seq"], "right") - 1
    begun = at >= 0
    start_seq = starts["seq"][np.maximum(at, 0)] if len(starts) else np.zeros(len(ends), np.int64)
    begun[1:] &= start_seq[1:] > ends["seq"][:-1]
    whole = begun & (done < NEVER)
    begin = starts["time"][at[whole]]
    took = done[whole] - begin
    took_first = int(starts["number"][at[whole]][took.argmax()]) if len(took) else 0
    return Messages(len(ends), int((done == NEVER).sum()), np.maximum(took, 0), took_first)
