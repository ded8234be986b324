# SPDX-License-Identifier: BSD-2-Clause
"""The requestor's EV table (behaviour.md, Paths) as far as packets betray it.

What moves an EV is seen: marks, NACKs, retransmissions. A retransmission says what the requestor took for lost, whether
that had arrived or not. What brings it back is seen when data is sent on it again, or
when probes on it were answered. Whether the requestor took a step for the reasons given here is inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.fates import REFUSED, TRIMMED, Fates
from mrc.capture.analysis.records import NACK, SACK
from mrc.capture.frames import I64
from mrc.capture.rows import Rows

GOOD, SKIP, ASSUMED_BAD = "GOOD", "SKIP", "ASSUMED_BAD"
_MARKED, _TRIMMED, _ALWAYS, _LOSS, _PROBED, _TAKEN_BACK = range(6)
TRIGGERS = ("marked", "trimmed", "marked for good", "lost", "probes answered", "not lost after all")
USED_AGAIN = "used again"
_PROBES_TO_RETURN = 3


class Change(NamedTuple):
    """From `time` (ns) on an EV is in `state`, because of `trigger`, seen in packet `number`."""

    time: int
    state: str
    trigger: str
    number: int


class ProbeFates(NamedTuple):
    """Probes in order of time, one element each: EV, time of the answer (NEVER for none) and whether it bore a mark."""

    probes: Rows
    answered_at: I64
    marked: I64


@dataclass(frozen=True, slots=True)
class PathHistory:
    """`changes` in order of time; `out_ns` the time spent in ASSUMED_BAD, `outs` how often it went there."""

    changes: list[Change]
    out_ns: int
    outs: int

    @property
    def state(self) -> str:
        return self.changes[-1].state if self.changes else GOOD


class _Events(NamedTuple):
    time: I64
    what: I64
    number: I64
    ev: I64
    # For a loss, and one taken back, when what was taken for lost had been sent.
    sent: I64


def histories(fates: Fates, answers: Rows, probes: ProbeFates, end_ns: int) -> dict[int, PathHistory]:
    """For each EV that anything happened to. `end_ns`: the time of the last packet."""
    events = _events(fates, answers, probes)
    order = np.lexsort((events.time, events.ev))
    events = _Events(*(column[order] for column in events))
    sent = np.lexsort((fates.requests["time"], fates.requests["ev"]))
    sent_ev, sent_time = fates.requests["ev"][sent], fates.requests["time"][sent]
    sent_number = fates.requests["number"][sent]
    found = {}
    evs, begins = np.unique(events.ev, return_index=True)
    ends = np.append(begins, len(events.ev))[1:]
    for ev, begin, end in zip(evs.tolist(), begins.tolist(), ends.tolist(), strict=True):
        used = slice(*np.searchsorted(sent_ev, [ev, ev + 1]).tolist())
        one = _Events(*(column[begin:end] for column in events))
        found[ev] = _history(one, sent_time[used], sent_number[used], end_ns)
    return found


def _events(fates: Fates, answers: Rows, probes: ProbeFates) -> _Events:
    marks = answers[(answers["kind"] == SACK) & (answers["mark"] > 0)]
    trims = answers[(answers["kind"] == NACK) & (answers["code"] == 0x01)]
    # Whatever was sent again and no NACK had asked for. The retransmission shows when the loss was noticed; it follows
    # in PSN order.
    lost = (fates.noticed < NEVER) & ~fates.are(TRIMMED) & ~fates.are(REFUSED)
    noticed_by = np.flatnonzero(lost) + 1
    # The SACK of the first transmission, after its retransmission, shows the requestor that nothing was lost.
    shown = fates.acknowledged.original_at[fates.group]
    taken_back = lost & fates.first & (shown < NEVER) & (shown >= fates.noticed)
    answered = probes.answered_at < int(NEVER)
    parts = [
        (
            marks["time"],
            np.where(marks["mark"] == 1, _MARKED, _ALWAYS),
            marks["number"],
            marks["entropy"],
            marks["time"],
        ),
        (trims["time"], np.full(len(trims), _TRIMMED), trims["number"], trims["entropy"], trims["time"]),
        (
            fates.noticed[lost],
            np.full(int(lost.sum()), _LOSS),
            fates.requests["number"][noticed_by],
            fates.requests["ev"][lost],
            fates.requests["time"][lost],
        ),
        (
            probes.answered_at[answered],
            np.full(int(answered.sum()), _PROBED),
            probes.probes["number"][answered],
            probes.probes["ev"][answered],
            probes.probes["time"][answered],
        ),
        (
            shown[taken_back],
            np.full(int(taken_back.sum()), _TAKEN_BACK),
            fates.requests["number"][taken_back],
            fates.requests["ev"][taken_back],
            fates.requests["time"][taken_back],
        ),
    ]
    return _Events(*(np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True)))


def _history(events: _Events, sent_time: I64, sent_number: I64, end_ns: int) -> PathHistory:
    changes: list[Change] = []
    state, since, answered, out_ns, outs, went_out, condemned_by = GOOD, 0, 0, 0, 0, -1, -1
    # When data next goes out on this EV after each event.
    following = np.searchsorted(sent_time, events.time, "right")

    def move(time: int, to: str, trigger: str, number: int) -> None:
        nonlocal state, since, answered, out_ns, outs, went_out
        if state == ASSUMED_BAD:
            out_ns += time - since
        if to == ASSUMED_BAD:
            outs, went_out = outs + 1, time
        state, since, answered = to, time, 0
        changes.append(Change(time, to, trigger, number))

    count = len(events.time)
    rows = zip(*(column.tolist() for column in (*events, following)), strict=True)
    for index, (time, what, number, _, sent, next_sent) in enumerate(rows):
        if what == _PROBED:
            answered += 1
            if state == ASSUMED_BAD and answered >= _PROBES_TO_RETURN:
                move(time, GOOD, TRIGGERS[_PROBED], number)
        elif what in (_LOSS, _ALWAYS):
            # What was in flight when the EV went down goes down with it: one event.
            if state != ASSUMED_BAD and sent > went_out:
                move(time, ASSUMED_BAD, TRIGGERS[what], number)
                condemned_by = sent
        elif what == _TAKEN_BACK:
            if state == ASSUMED_BAD and sent == condemned_by:
                move(time, GOOD, TRIGGERS[what], number)
        elif state == GOOD:
            move(time, SKIP, TRIGGERS[what], number)
        until = int(events.time[index + 1]) if index + 1 < count else int(NEVER)
        if state != GOOD and next_sent < len(sent_time) and sent_time[next_sent] <= until:
            move(int(sent_time[next_sent]), GOOD, USED_AGAIN, int(sent_number[next_sent]))
    if state == ASSUMED_BAD:
        out_ns += max(0, end_ns - since)
    return PathHistory(changes, out_ns, outs)
