# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Posted receives, and the writes with immediate that consume them in RQMSN order (behaviour.md, Responder)."""

from __future__ import annotations

from mrc.endpoint.completion_ring import NO_IMMEDIATE, CompletionRing
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.config import MILLISECOND
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import Heap, Table, column, signed
from mrc.endpoint.refusals import Refusal, Verdict
from mrc.wire.compiled import i64s, public, python

# The RQMSN of a request without immediate.
_LEAST_ROOM = 16
_SUCCESS, _FLUSHED, _RECEIVE = int(WorkStatus.SUCCESS), int(WorkStatus.FLUSHED), int(WorkKind.RECV_RDMA_WITH_IMM)
_RQMSN_MASK = 0xFFFF
_RIGHT, _OTHER_RQMSN, _NO_IMMEDIATES = int(Verdict.RIGHT), int(Verdict.OTHER_RQMSN), int(Verdict.NO_IMMEDIATES)
_NO_RECEIVE, _TOO_MANY = int(Verdict.NO_RECEIVE), int(Verdict.TOO_MANY_IMMEDIATES)
# What follows the PSN in a row of the immediates that wait: RQMSN, immediate, bytes of the message.
_RQMSN, _VALUE, _LENGTH = 1, 2, 3
_COLUMNS = 4


class Receives:
    """One QP's posted receives, `posted` of them. An early immediate waits here until every earlier request has
    arrived; `stashed` of them do. `refusal` receives a request that is refused.

    Where one `may_wait` for a receive, `stop` is the PSN of the immediate that does, FOREVER while none does: it is due
    and not delivered, and no PSN from it on is acknowledged (MRC-IMM-07).
    """

    def __init__(self, completions: CompletionRing) -> None:
        self._completions = completions
        # A ring of the posted ones, from `_first` on.
        self._wr_ids: i64s = column(_LEAST_ROOM)
        self._mask = _LEAST_ROOM - 1
        self._first = 0
        self.posted = 0
        # What waits, by PSN, and these PSNs in order.
        self._stash = Table(_COLUMNS)
        self._waiting = Heap()
        self.stashed = 0
        # Immediates delivered so far: the RQMSN of the next one.
        self.delivered: public[int] = 0
        # The most the peer may have in flight; known once the QP is ready to receive.
        self.max_in_flight: public[int] = 0
        self.may_wait: public[bool] = False
        self.stop: public[int] = FOREVER
        self.refusal = Refusal()

    def post(self, wr_id: int) -> python[None]:
        if self.posted > self._mask:
            self._grow()
        self._completions.expect()
        self._wr_ids[self._first + self.posted & self._mask] = signed(wr_id)
        self.posted += 1

    def _grow(self) -> python[None]:
        self._make_room(2 * self.posted)

    def reserve(self, room: int) -> python[None]:
        """Have places for so many receives, a power of two, from now on: `post_at` makes none."""
        if self._mask < room - 1:
            self._make_room(room)

    def _make_room(self, room: int) -> python[None]:
        wr_ids = column(room)
        for place in range(self.posted):
            wr_ids[place] = self._wr_ids[self._first + place & self._mask]
        self._wr_ids, self._first, self._mask = wr_ids, 0, room - 1

    def post_at(self, wr_id: int) -> None:
        """Post a receive where there is a place for it."""
        self._wr_ids[self._first + self.posted & self._mask] = wr_id
        self.posted += 1

    def check(self, psn: int, rqmsn: int, edge: int) -> int:
        """See that what is below `edge`, the epsn that a request leaves, may be delivered then; `rqmsn` is that of the
        request at `psn`, NO_IMMEDIATE where it has no immediate, and it may be one of those in flight.

        Returns a verdict: one that would come out of order or be one too many in flight is refused. One that would find
        no receive is, too, or becomes `stop`.
        """
        due, each = 0, self._waiting.first()
        if rqmsn != NO_IMMEDIATE and psn < each:
            each = psn
        while each < edge:
            found = rqmsn if each == psn else self._rqmsn_of(each)
            if found != NO_IMMEDIATE:
                verdict = self._check_turn(each, found, due)
                if verdict == _NO_RECEIVE and self.may_wait:
                    self.stop = edge = each
                    break
                if verdict != _RIGHT:
                    return verdict
                due += 1
            each += 1
        if rqmsn == NO_IMMEDIATE or psn < edge:
            return _RIGHT
        # Several PSNs may claim one RQMSN: so many may wait, whatever they say.
        if (rqmsn - self.delivered - due & _RQMSN_MASK) < self.max_in_flight and self.stashed < self.max_in_flight:
            return _RIGHT
        return self.refusal.of(_TOO_MANY, psn, rqmsn, self.max_in_flight)

    def lacks_receive(self, waited_ns: int) -> int:
        """The immediate at `stop` has waited for so long, which is enough. Returns the verdict."""
        return self.refusal.of(_NO_RECEIVE, self.stop, waited_ns // MILLISECOND, 0)

    def _rqmsn_of(self, psn: int) -> int:
        """The RQMSN of the immediate that waits at this PSN, NO_IMMEDIATE where none does."""
        row = self._stash.find(psn)
        return NO_IMMEDIATE if row < 0 else self._stash.cells[row + _RQMSN]

    def _check_turn(self, psn: int, rqmsn: int, before: int) -> int:
        """Whether an immediate may be delivered after so many others. Returns a verdict."""
        expected = self.delivered + before & _RQMSN_MASK
        if rqmsn != expected:
            return self.refusal.of(_OTHER_RQMSN, psn, rqmsn, expected)
        if not self.max_in_flight:
            return self.refusal.of(_NO_IMMEDIATES, psn, 0, 0)
        if before >= self.posted:
            return self.refusal.of(_NO_RECEIVE, psn, 0, 0)
        return _RIGHT

    def arrive(self, psn: int, rqmsn: int, immediate: int, length: int) -> None:
        """An immediate has arrived, in any order, and has been checked."""
        row = self._stash.put(psn)
        self._stash.cells[row + _RQMSN] = rqmsn
        self._stash.cells[row + _VALUE] = immediate
        self._stash.cells[row + _LENGTH] = length
        self._waiting.push(psn, 0)
        self.stashed += 1

    def deliver(self, epsn: int) -> None:
        """Complete a receive for each immediate below `epsn`."""
        while self._waiting.first() < epsn:
            row = self._stash.find(self._waiting.pop())
            immediate, length = self._stash.cells[row + _VALUE], self._stash.cells[row + _LENGTH]
            self._stash.remove(row)
            self.stashed -= 1
            self.delivered += 1
            self.consume(immediate, length)

    def consume(self, immediate: int, length: int) -> None:
        """Complete the oldest receive, which there is, with the immediate of a message of `length` bytes."""
        self._completions.add(self._oldest(), _SUCCESS, length, _RECEIVE, immediate)

    def _oldest(self) -> int:
        """The receive that was posted first is no longer there. Returns its wr_id."""
        wr_id = self._wr_ids[self._first & self._mask]
        self._first += 1
        self.posted -= 1
        return wr_id

    def forget(self) -> python[None]:
        """Nothing waits any more."""
        self._waiting.clear()
        self._stash.clear()
        self.stashed = 0
        self.stop = FOREVER

    def flush(self) -> python[None]:
        """The QP is over: complete every posted receive with an error, and forget what waits."""
        self.forget()
        while self.posted:
            self._completions.add(self._oldest(), _FLUSHED, 0, _RECEIVE, NO_IMMEDIATE)
