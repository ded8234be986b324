# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Work of one QP that has ended: written down on the packet's path, made into completions when Python comes."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.work import SOLICITED
from mrc.endpoint.work_rings import WorkRings
from mrc.wire.compiled import any_int, i64s, may_raise, python, with_gil

_LEAST_ROOM, _COLUMNS = 4, 5
NO_IMMEDIATE = -1
_64_BITS: any_int = 0xFFFFFFFFFFFFFFFF
_IMMEDIATE_BITS = SOLICITED - 1
# A dictionary finds a member in a tenth of the time that the enumeration needs.
_STATUSES: dict[int, WorkStatus] = {int(status): status for status in WorkStatus}
_KINDS: dict[int, WorkKind] = {int(kind): kind for kind in WorkKind}


class CompletionRing:
    """`count` pieces of work wait here, in the order in which they ended, until `drain`. With `rings` none does: what
    ends is written there."""

    def __init__(self, qpn: int, complete: Callable[[Completion], None], rings: WorkRings | None = None) -> None:
        self.rings = rings
        self._qpn: any_int = qpn
        self._complete = complete
        self.count = self._room = 0
        self._expected = 0  # posted, and neither ended nor forgotten
        self._columns: i64s = column(0)
        self._divide()

    def expect(self) -> may_raise[None]:
        """Reserve room for the completion of a piece of work that is posted: when it ends Python may be away."""
        self._expected += 1
        if self.count + self._expected > self._room:
            self._grow()

    def add(self, wr_id: int, status: int, byte_len: int, kind: int, immediate: int) -> None:
        """A piece of work has ended. Numbers as in Completion; `wr_id` is one of 64 bits, with or without a sign, and
        `immediate` -1 where there is none; SOLICITED may be with it."""
        if self.rings is not None:
            self.rings.complete(wr_id, status, byte_len, kind, immediate)
            return
        place = self.count
        if place == self._room:
            self._grow()
        self._expected -= 1
        self.count = place + 1
        self._wr_ids[place] = wr_id
        self._statuses[place] = status
        self._byte_lens[place] = byte_len
        self._kinds[place] = kind
        self._immediates[place] = immediate

    def _grow(self) -> with_gil[None]:
        room: int
        columns: i64s
        number: int
        place: int
        old: i64s = self._columns
        before: int = self._room
        self._room = room = max(_LEAST_ROOM, 2 * before, self.count + self._expected)
        self._columns = columns = column(_COLUMNS * room)
        for number in range(_COLUMNS):
            for place in range(self.count):
                columns[number * room + place] = old[number * before + place]
        self._divide()

    def _divide(self) -> may_raise[None]:
        """The columns are parts of one: each memoryview takes half a kilobyte."""
        columns: i64s = self._columns
        room: int = self._room
        self._wr_ids, self._statuses = columns[:room], columns[room : 2 * room]
        self._byte_lens, self._kinds = columns[2 * room : 3 * room], columns[3 * room : 4 * room]
        self._immediates = columns[4 * room :]

    def drain(self) -> python[None]:
        """Hand over what waits, oldest first."""
        done, at = [], 0
        while at < self.count:
            immediate = self._immediates[at]
            done.append(
                Completion(
                    self._wr_ids[at] & _64_BITS,
                    self._qpn,
                    _STATUSES[self._statuses[at]],
                    self._byte_lens[at],
                    _KINDS[self._kinds[at]],
                    None if immediate == NO_IMMEDIATE else immediate & _IMMEDIATE_BITS,
                    immediate != NO_IMMEDIATE and immediate & SOLICITED != 0,
                )
            )
            at += 1
        self.count = 0
        for completion in done:
            self._complete(completion)
