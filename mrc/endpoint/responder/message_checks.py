# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Whether the packets of a message agree with each other (behaviour.md, Responder: "contradicts").

Packets come in any order. Each has its message's length, and with its VA where the message lies: DMALen, and VA less
PSN x path MTU, are the same in every packet of one message. A First and a Last show at which PSN the message starts, a
Middle between which. Besides, neighbours by PSN belong together: a message starts where another has ended.

What is kept is bounded by the window: one message at most reaches below epsn, every other one has a packet above it.
"""

from __future__ import annotations

from mrc.endpoint.parts.numbers import Table
from mrc.endpoint.refusals import Refusal, Verdict
from mrc.endpoint.responder.peer_request import PeerRequest
from mrc.endpoint.responder.received import ring_size
from mrc.wire.compiled import i64s, python

# A packet that arrived, in one number: psn(46) msn(16) starts(1) ends(1).
_PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT = 18, 2, 0xFFFF, 1, 1
_NOBODY = -1 << 62
_RIGHT, _WRONG_NEIGHBOUR = int(Verdict.RIGHT), int(Verdict.WRONG_NEIGHBOUR)
_OTHER_DMALEN, _OTHER_VA, _OTHER_PSN = int(Verdict.OTHER_DMALEN), int(Verdict.OTHER_VA), int(Verdict.OTHER_PSN)
# What follows the MSN in a row of the messages that are on their way.
DMALEN, VA_OF_PSN_0, LEAST_START, MOST_START, ARRIVED = 1, 2, 3, 4, 5
_DMALEN, _VA_OF_PSN_0, _LEAST_START, _MOST_START, _ARRIVED = DMALEN, VA_OF_PSN_0, LEAST_START, MOST_START, ARRIVED
_COLUMNS = 6


class MessageChecks:
    """The messages of one peer, as far as they are on their way. `span` is as for ReceivedPsns.

    `open` has those of several packets of which some have arrived, not all. A message starts at a PSN from
    LEAST_START to MOST_START; VA_OF_PSN_0 is its VA less PSN x path MTU; ARRIVED counts its packets. `refusal` is told
    of a request that is refused.
    """

    _mask: int
    _path_mtu: int
    _tags: i64s
    _refusal: Refusal
    open: Table

    __slots__ = tuple(__annotations__)

    def __init__(self, span: int, first_psn: int, path_mtu: int, refusal: Refusal) -> None:
        self._path_mtu = path_mtu
        self._refusal = refusal
        self.open = Table(_COLUMNS)  # by MSN
        self._make_ring(ring_size(span + 1))
        # Before the first PSN every message has ended.
        self._tags[first_psn - 1 & self._mask] = first_psn - 1 << _PSN_SHIFT | _ENDS_BIT

    def _make_ring(self, size: int) -> python[None]:
        self._mask = size - 1
        self._tags = memoryview(bytearray(8 * size)).cast("q")
        for slot in range(size):
            self._tags[slot] = _NOBODY

    def make_room(self, span: int) -> python[None]:
        """Be ready for a larger window. The ring never shrinks."""
        size = ring_size(span + 1)
        if size > self._mask + 1:
            # A PSN that has been passed long ago may share its new place with a later one.
            kept = sorted(tag for tag in self._tags if tag != _NOBODY)
            self._make_ring(size)
            for tag in kept:
                self._tags[tag >> _PSN_SHIFT & self._mask] = tag

    def check(self, request: PeerRequest) -> int:
        """Take a packet whose length is right for its opcode. Returns a verdict: nothing has happened if it contradicts
        one that came before."""
        psn, msn, starts, ends = request.psn, request.msn, request.starts, request.ends
        before, after = self._tags[psn - 1 & self._mask], self._tags[psn + 1 & self._mask]
        if before >> _PSN_SHIFT == psn - 1 and (
            before & _ENDS_BIT != starts or not (starts or before >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return self._refusal.of(_WRONG_NEIGHBOUR, psn, 0, 0)
        if after >> _PSN_SHIFT == psn + 1 and (
            after >> _STARTS_SHIFT & 1 != ends or not (ends or after >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return self._refusal.of(_WRONG_NEIGHBOUR, psn, 0, 0)
        verdict = _RIGHT
        if not (starts and ends):
            verdict = self._join(request)
        if verdict == _RIGHT:
            self._tags[psn & self._mask] = psn << _PSN_SHIFT | msn << _MSN_SHIFT | starts << _STARTS_SHIFT | ends
        return verdict

    def _join(self, request: PeerRequest) -> int:
        """Put a packet to those of its message; forget the message when it has arrived whole. Returns a verdict."""
        psn, dmalen = request.psn, request.dmalen
        va_of_psn_0 = request.start - psn * self._path_mtu
        rest = (dmalen - 1) // self._path_mtu
        most = psn
        if request.ends:
            most = psn - rest
        elif not request.starts:
            most = psn - 1
        least = most if request.starts or request.ends else psn - rest + 1
        row = self.open.find(request.msn)
        arrived = 0
        if row >= 0:
            if self.open.cells[row + _DMALEN] != dmalen:
                return self._refusal.of(_OTHER_DMALEN, psn, dmalen, self.open.cells[row + _DMALEN])
            if self.open.cells[row + _VA_OF_PSN_0] != va_of_psn_0:
                return self._refusal.of(_OTHER_VA, psn, 0, 0)
            if self.open.cells[row + _LEAST_START] > least:
                least = self.open.cells[row + _LEAST_START]
            if self.open.cells[row + _MOST_START] < most:
                most = self.open.cells[row + _MOST_START]
            arrived = self.open.cells[row + _ARRIVED]
        if least > most:
            return self._refusal.of(_OTHER_PSN, psn, 0, 0)
        if arrived == rest:
            if row >= 0:
                self.open.remove(row)
            return _RIGHT
        if row < 0:
            row = self.open.put(request.msn)
            self.open.cells[row + _DMALEN], self.open.cells[row + _VA_OF_PSN_0] = dmalen, va_of_psn_0
        self.open.cells[row + _LEAST_START], self.open.cells[row + _MOST_START] = least, most
        self.open.cells[row + _ARRIVED] = arrived + 1
        return _RIGHT
