# SPDX-License-Identifier: BSD-2-Clause
"""The one check of a capture's times, before anything else reads them: missing, too coarse, or stepped back.

Whether the clock was set forward the flows show (`forward_steps`): here are the pauses in which it may have been.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.columns import NO_TIME
from mrc.capture.frames import I64, Bools
from mrc.wire.psn import psn_diff_array

_MILLISECOND = 1_000_000
# Packets of several queues may be written a little out of order; a clock that is set goes further back.
_STEP_NS = _MILLISECOND
# Of a flow that goes on across a step the next PSN is about here; of files put one behind the other it is not.
_BEHIND, _AHEAD = 16, 64
_MOST_STEPS = 3
# Shorter pauses are not looked at, nor more of them.
_PAUSE_NS, _MOST_PAUSES = 200_000, 16
# Fewer packets may well lie on whole milliseconds by chance.
_FEWEST = 20


class Step(NamedTuple):
    """From packet `number` on, whose time is `at`, the clock was `ns` further back; further ahead where negative."""

    number: int
    ns: int
    at: int = 0


class Pause(NamedTuple):
    """No packet of the whole file lies between two times; `number` is the first behind it."""

    begin: int
    end: int
    number: int

    @property
    def ns(self) -> int:
        return self.end - self.begin

    def moved(self, steps: list[Step]) -> Pause:
        """The pause with these steps of the clock taken out."""
        begin, end = moved(np.array([self.begin, self.end]), steps).tolist()
        return Pause(begin, end, self.number)


def moved(time: I64, steps: list[Step]) -> I64:
    """Times with these steps of the clock taken out."""
    shifted = time.copy()
    for step in steps:
        shifted[time >= step.at] += step.ns
    return shifted


class Clock:
    """Times of a capture as nanoseconds since its first. A packet without one gets that of the packet before; packets
    of one millisecond, where the file has no finer times, stay in its order; a step back is taken out."""

    def __init__(self) -> None:
        self.start_ns: int | None = None
        self._last = self._tick = self._in_tick = self._shift = 0
        self.missing = self._packets = self._coarse = 0
        self.first_missing: int | None = None
        self.steps: list[Step] = []
        self._latest: int | None = None
        self._pauses: list[Pause] = []

    @property
    def is_coarse(self) -> bool:
        """Whether the file has whole milliseconds only."""
        return self._packets >= _FEWEST and self._coarse == self._packets

    def filled(self, time_ns: I64, psn: I64, qpn: I64, is_request: Bools, numbers: I64) -> I64:
        there = time_ns != NO_TIME
        if self.start_ns is None and there.any():
            self.start_ns = int(time_ns[there.argmax()])
        start = self.start_ns or 0
        time = np.where(there, time_ns - start, 0)
        # Stamps centuries apart are junk; so kept, differences of two never leave 64 bits.
        time = np.clip(time, -(1 << 60), 1 << 60)
        if not there.all():
            self.missing += int((~there).sum())
            self.first_missing = self.first_missing or int(numbers[there.argmin()])
            latest = np.maximum.accumulate(np.where(there, np.arange(len(time)), -1))
            time = np.where(latest >= 0, time[np.maximum(latest, 0)], self._last - self._shift)
        if not len(time):
            return time
        time = self._without_steps(time, psn, qpn, is_request, numbers)
        self._packets += int(there.sum())
        if there.sum() >= _FEWEST and not (time_ns[there] % _MILLISECOND).any():
            self._coarse += int(there.sum())
            time = self._in_order(time)
        self._last = int(time[-1])
        self._note_pauses(time, numbers)
        return time

    @property
    def pauses(self) -> list[Pause]:
        """The longest pauses of the whole file, in order of time."""
        return sorted(self._pauses)

    def _note_pauses(self, time: I64, numbers: I64) -> None:
        latest = np.maximum.accumulate(np.append(int(time[0]) if self._latest is None else self._latest, time))
        self._latest = int(latest[-1])
        gap = time - latest[:-1]
        for at in np.flatnonzero(gap >= _PAUSE_NS)[np.argsort(-gap[gap >= _PAUSE_NS])][:_MOST_PAUSES].tolist():
            self._pauses.append(Pause(int(latest[at]), int(time[at]), int(numbers[at])))
        self._pauses = sorted(self._pauses, key=lambda pause: -pause.ns)[:_MOST_PAUSES]

    def _without_steps(self, time: I64, psn: I64, qpn: I64, is_request: Bools, numbers: I64) -> I64:
        time = time + self._shift
        back = np.flatnonzero(np.diff(time, prepend=self._last) < -_STEP_NS)
        for at in back[:_MOST_STEPS].tolist():
            ns = int(time[at - 1] - time[at]) if at else self._last - int(time[at])
            if len(self.steps) < _MOST_STEPS and ns > _STEP_NS and _goes_on(at, psn, qpn, is_request):
                self.steps.append(Step(int(numbers[at]), ns))
                self._shift += ns
                time[at:] += ns
        return time

    def _in_order(self, time: I64) -> I64:
        """Packets of one tick a nanosecond apart, in the order of the file."""
        fresh = np.ones(len(time), np.bool_)
        fresh[1:] = time[1:] != time[:-1]
        fresh[0] = time[0] != self._tick
        latest = np.maximum.accumulate(np.where(fresh, np.arange(len(time)), -1))
        rank = np.where(latest >= 0, np.arange(len(time)) - latest, np.arange(len(time)) + self._in_tick + 1)
        self._tick, self._in_tick = int(time[-1]), int(rank[-1])
        found: I64 = time + np.minimum(rank, _MILLISECOND - 1)
        return found


def _goes_on(at: int, psn: I64, qpn: I64, is_request: Bools) -> bool:
    """Whether a flow goes on across a place of the file: the requests to one QP before and behind it."""
    before, behind = np.flatnonzero(is_request[:at])[-1:], np.flatnonzero(is_request[at:])[:1] + at
    if not len(before) or not len(behind) or qpn[before[0]] != qpn[behind[0]]:
        return False
    ahead = int(psn_diff_array(psn[behind], int(psn[before[0]]))[0])
    return -_BEHIND <= ahead <= _AHEAD
