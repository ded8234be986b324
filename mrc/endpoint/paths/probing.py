# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Probes that bring a bad EV back (behaviour.md, Probing).

The first probe goes out one path timer after the EV went bad; while they fail they come 10 ms apart, doubling to
250 ms; after an answer the next follows at once.
"""

from __future__ import annotations

from mrc.endpoint.config import PathConfig
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.tracing import QpTrace
from mrc.wire.compiled import i64s, may_raise, readonly, with_gil

_NONE = -1
_MILLION = 1_000_000
_COLUMNS = 7


class PathProbing:
    """Which EVs are to be probed when, and what the answers do to them.

    `due` leaves the indexes to probe now in `found`, `found_count` of them; `next_deadline` is when a probe is due, ns,
    or FOREVER.
    """

    def __init__(self, paths: PathSet, config: PathConfig, trace: QpTrace | None = None) -> None:
        self._paths = paths
        self._first_millionths: int = round(config.first_probe_path_timers * _MILLION)
        self._shortest_interval = config.probe_interval_ns
        self._longest_interval = config.probe_interval_max_ns
        self._needed = config.probes_to_restore
        self._trace: readonly[QpTrace | None] = trace
        # The EVs that are probed, in the order in which they were taken up.
        self._probed_count = 0
        self._room = 0
        self.next_deadline: int = FOREVER
        self.failed = 0
        self.found_count = 0
        # By EV: whether it is probed; when the next probe is due and how long the one after it waits; probes answered
        # one after the other; the id of the probe that is out, or -1. There is no room before the first EV is bad.
        self._columns: i64s = column(0)
        self._divide(0)

    def _make_room(self) -> with_gil[None]:
        """Have a place for every EV there is."""
        columns: i64s
        number: int
        place: int
        old: i64s = self._columns
        before: int = self._room
        room: int = len(self._paths.paths)
        self._columns = columns = column(_COLUMNS * room)
        for number in range(_COLUMNS):
            for place in range(before):
                columns[number * room + place] = old[number * before + place]
        self._divide(room)

    def _divide(self, room: int) -> may_raise[None]:
        columns: i64s = self._columns
        self._room = room
        self._due_at, self._interval = columns[:room], columns[room : 2 * room]
        self._answered, self._probe_id = columns[2 * room : 3 * room], columns[3 * room : 4 * room]
        self._probed, self._is_probed = columns[4 * room : 5 * room], columns[5 * room : 6 * room]
        self.found = columns[6 * room :]

    def take_up(self, now: int, path_timer: int) -> None:
        """Schedule the first probe of every EV that went bad since the last call."""
        for place in range(self._paths.newly_bad_count):
            index = self._paths.newly_bad[place]
            if index >= self._room:
                self._make_room()
            if not self._is_probed[index]:
                self._is_probed[index] = 1
                self._probed[self._probed_count] = index
                self._probed_count += 1
            self._due_at[index] = now + path_timer * self._first_millionths // _MILLION
            self._interval[index] = self._shortest_interval
            self._answered[index] = 0
            self._probe_id[index] = _NONE
        self._paths.forget_newly_bad()
        self._changed()

    def _changed(self) -> None:
        """Find out when the next probe is due."""
        self.next_deadline = FOREVER
        for place in range(self._probed_count):
            if self._due_at[self._probed[place]] < self.next_deadline:
                self.next_deadline = self._due_at[self._probed[place]]

    def due(self, now: int, path_timer: int) -> None:
        """Find the EVs to probe now. A probe still unanswered when the next is due has failed.

        The next is never due before a path timer is over: where a round trip takes longer than the interval, every
        probe would have failed before its answer could come.
        """
        self.found_count = 0
        if self.next_deadline > now:
            return
        kept = 0
        for place in range(self._probed_count):
            index = self._probed[place]
            if not self._paths.is_bad(index):
                # Restored some other way: its loss proved spurious, or it was denied. Or its port is down: the EV is
                # newly bad once more when the port is back.
                self._is_probed[index] = 0
                continue
            self._probed[kept] = index
            kept += 1
            if self._due_at[index] <= now:
                self._find(index, now, path_timer)
        self._probed_count = kept
        self._changed()

    def _find(self, index: int, now: int, path_timer: int) -> None:
        """A probe is due on this EV."""
        if self._probe_id[index] != _NONE:
            self.failed += 1
            if self._trace is not None:
                self._trace_failed(self._probe_id[index], index)
            self._paths.on_probe_failed(index)
            self._answered[index] = 0
            self._interval[index] = min(self._interval[index] * 2, self._longest_interval)
        self._probe_id[index] = _NONE
        self._due_at[index] = now + max(self._interval[index], path_timer)
        self.found[self.found_count] = index
        self.found_count += 1

    def _trace_failed(self, probe_id: int, index: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.probe_failed(probe_id, index)

    def sent(self, index: int, probe_id: int) -> None:
        """A probe due on this EV goes out under this id."""
        self._probe_id[index] = probe_id

    def on_answer(self, index: int, probe_id: int, m: int, now: int) -> None:
        """A probe on this EV was answered; `m` is the answer's ECN verdict. One given up before changes nothing."""
        if index >= self._room or not self._is_probed[index] or self._probe_id[index] != probe_id or m > 1:
            return
        self._probe_id[index] = _NONE
        self._answered[index] += 1
        if self._answered[index] < self._needed:
            self._interval[index] = self._shortest_interval
            self._due_at[index] = now
        else:
            self._drop(index)
            self._paths.on_probed(index, m == 1)
        self._changed()

    def _drop(self, index: int) -> None:
        """An EV needs no probes any more."""
        self._is_probed[index] = 0
        kept = 0
        for place in range(self._probed_count):
            if self._probed[place] != index:
                self._probed[kept] = self._probed[place]
                kept += 1
        self._probed_count = kept
