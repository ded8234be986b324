# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The queues of a QP whose program is no Python: rings of words in that program's memory.

The program posts into them and polls them without asking anybody; the endpoint takes what was posted and writes what
has ended, without the interpreter. Every word is written by one side only, but for `ARMED`. Where the words are is
shared with mrc/capi/src/rings.h (tests/capi).
"""

from __future__ import annotations

from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.doorbells import Doorbells
from mrc.endpoint.work import SOLICITED
from mrc.wire import octets
from mrc.wire.compiled import pointer, python

# Of a QP. The program writes those of the first line, the endpoint those of the second.
SENDS_POSTED, RECEIVES_POSTED, SEND_MASK, RECEIVE_MASK, SENDS, RECEIVES, SEND_CQ, RECEIVE_CQ = range(8)
SENDS_TAKEN, RECEIVES_TAKEN, SENDS_ENDED, RECEIVES_ENDED, STATE, QPN = range(8, 14)
QP_WORDS = 16
# Of a send that is posted. A receive has the first word alone.
WR_ID, ADDRESS, LENGTH, REMOTE_VA, RKEY, IMMEDIATE, FLAGS, LKEY = range(8)
SEND_WORDS = 8
# Of a completion queue: the endpoint's line and the program's.
CAME, OVERRUN = range(2)
POLLED, CQ_MASK, CQ_ROOM, ENTRIES, ARMED, EVENT_FD, ASYNC_FD = range(8, 15)
CQ_WORDS = 16
# What ARMED asks for an event of: the last one is of errors too.
NOTHING, ANYTHING, SOLICITED_ONLY = range(3)
# Of a completion.
DONE_WR_ID, DONE_STATUS, DONE_KIND, DONE_LENGTH, DONE_IMMEDIATE, DONE_QPN = range(6)
DONE_WORDS = 8

_SIGNALED = 2  # of FLAGS, as in ibv_send_flags
_RECEIVE, _SUCCESS, _FLUSHED = int(WorkKind.RECV_RDMA_WITH_IMM), int(WorkStatus.SUCCESS), int(WorkStatus.FLUSHED)
_WRITE, _NO_IMMEDIATE = int(WorkKind.RDMA_WRITE), -1
_DONE_WR_ID, _DONE_STATUS, _DONE_KIND, _DONE_LENGTH, _DONE_IMMEDIATE, _DONE_QPN = range(6)


class WorkRings:
    """One QP's. Its program keeps the memory until the QP is destroyed."""

    def __init__(self, address: int, bells: Doorbells) -> None:
        self._bells = bells
        self._words = words = octets.words_at(address, QP_WORDS)
        self._sends = octets.words_at(words[SENDS], (words[SEND_MASK] + 1) * SEND_WORDS)
        self._receives = octets.words_at(words[RECEIVES], words[RECEIVE_MASK] + 1)
        self._send_cq = octets.words_at(words[SEND_CQ], CQ_WORDS)
        self._receive_cq = octets.words_at(words[RECEIVE_CQ], CQ_WORDS)
        self._sent = octets.words_at(self._send_cq[ENTRIES], (self._send_cq[CQ_MASK] + 1) * DONE_WORDS)
        self._received = octets.words_at(self._receive_cq[ENTRIES], (self._receive_cq[CQ_MASK] + 1) * DONE_WORDS)

    @property
    def sends(self) -> int:
        """How many sends may be outstanding at most."""
        return int(self._words[SEND_MASK]) + 1

    @property
    def receives(self) -> int:
        """How many receives may be outstanding at most."""
        return int(self._words[RECEIVE_MASK]) + 1

    def begin(self, qpn: int) -> python[None]:
        """The QP begins anew: nothing is posted."""
        self._words[QPN] = qpn
        for each in (SENDS_POSTED, RECEIVES_POSTED, SENDS_TAKEN, RECEIVES_TAKEN, SENDS_ENDED, RECEIVES_ENDED):
            self._words[each] = 0

    def enter(self, state: int) -> None:
        """The QP is in this state now, as the program sees it."""
        octets.publish(self._words, STATE, state)

    # ------------------------------------------------------------------ what was posted

    def send_waits(self) -> bool:
        return octets.published(self._words, SENDS_POSTED) != self._words[SENDS_TAKEN]

    def take_send(self) -> int:
        """Take the oldest send that waits. Returns where its words are, for `send`."""
        taken = self._words[SENDS_TAKEN]
        self._words[SENDS_TAKEN] = taken + 1
        return (taken & self._words[SEND_MASK]) * SEND_WORDS

    def send(self, at: int) -> int:
        return self._sends[at]

    def receive_waits(self) -> bool:
        return octets.published(self._words, RECEIVES_POSTED) != self._words[RECEIVES_TAKEN]

    def take_receive(self) -> int:
        """Take the oldest receive that waits. Returns its wr_id."""
        taken = self._words[RECEIVES_TAKEN]
        self._words[RECEIVES_TAKEN] = taken + 1
        return self._receives[taken & self._words[RECEIVE_MASK]]

    def flush(self) -> None:
        """The QP is in ERROR: what is posted completes flushed."""
        while self.send_waits():
            self.complete(self._sends[self.take_send()], _FLUSHED, 0, _WRITE, _NO_IMMEDIATE)
        while self.receive_waits():
            self.complete(self.take_receive(), _FLUSHED, 0, _RECEIVE, _NO_IMMEDIATE)

    # ------------------------------------------------------------------ what has ended

    def complete(self, wr_id: int, status: int, byte_len: int, kind: int, immediate: int) -> None:
        """A piece of work has ended, in the order in which those of its kind were posted."""
        if kind == _RECEIVE:
            octets.publish(self._words, RECEIVES_ENDED, self._words[RECEIVES_ENDED] + 1)
            self._put(self._receive_cq, self._received, wr_id, status, byte_len, kind, immediate)
            return
        ended = self._words[SENDS_ENDED]
        flags = self._sends[(ended & self._words[SEND_MASK]) * SEND_WORDS + FLAGS]
        octets.publish(self._words, SENDS_ENDED, ended + 1)
        if status != _SUCCESS or flags & _SIGNALED:
            self._put(self._send_cq, self._sent, wr_id, status, byte_len, kind, immediate)

    def _put(
        self, cq: pointer, done: pointer, wr_id: int, status: int, byte_len: int, kind: int, immediate: int
    ) -> None:
        came = cq[CAME]
        if came - octets.published(cq, POLLED) >= cq[CQ_ROOM]:
            # The program finds out which queue it is when its descriptor for asynchronous events is readable.
            if octets.exchange(cq, OVERRUN, 1) == 0 and cq[ASYNC_FD] >= 0:
                self._bells.tell(cq[ASYNC_FD])
            return
        at = (came & cq[CQ_MASK]) * DONE_WORDS
        done[at + _DONE_WR_ID] = wr_id
        done[at + _DONE_STATUS] = status
        done[at + _DONE_KIND] = kind
        done[at + _DONE_LENGTH] = byte_len
        done[at + _DONE_IMMEDIATE] = immediate
        done[at + _DONE_QPN] = self._words[QPN]
        # In full order with reading ARMED: a program arms, then polls.
        octets.exchange(cq, CAME, came + 1)
        armed = octets.published(cq, ARMED)
        solicited = status != _SUCCESS or (immediate != _NO_IMMEDIATE and immediate & SOLICITED != 0)
        wanted = armed == ANYTHING or (armed != NOTHING and solicited)
        if wanted and self._bells.tell(cq[EVENT_FD]):
            octets.exchange(cq, ARMED, NOTHING)
