"""Responders that take, write or answer what they should not."""

from __future__ import annotations

import struct

from mrc.endpoint.memory import MemoryRegion
from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.opcodes import EXTENSION_BYTES, WRITES, RcOp
from mrc.rc.responder import Responder
from mrc.rc.syndromes import NAK_SEQUENCE_ERROR
from mrc.endpoint.refusals import ACK_SYNDROME
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.psn import psn_diff
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT, PSN_BITS_MASK
from mutants.rc.mutant import rc_mutant

_ONLYS = (RcOp.WRITE_ONLY, RcOp.WRITE_ONLY_WITH_IMMEDIATE)


class _EachRequest(Responder):
    """Looks at each request before it is taken."""

    __slots__ = ()

    def _head(self, batch: ReceivedBatch, row: int) -> tuple[int, int, int]:
        """Opcode, pad count, and how far its PSN is ahead of the one expected."""
        opcode, flags, psn_word = struct.unpack_from(">BB6xI", batch.view(row, 48, EXTENSION_AT))
        return opcode, flags >> 4 & 3, psn_diff(psn_word & PSN_BITS_MASK, self.epsn)

    def _write_only(self, batch: ReceivedBatch, row: int) -> None:
        """Write the payload of an Only, whatever its PSN says."""
        opcode, pad, _ = self._head(batch, row)
        if opcode in _ONLYS:
            va, rkey, _ = struct.unpack(">QII", batch.view(row, EXTENSION_AT, EXTENSION_AT + 16))
            start = EXTENSION_AT + EXTENSION_BYTES[RcOp(opcode)]
            payload = batch.view(row, start, int(batch.length[row]) - ICRC_LENGTH - pad)
            region = self._memory.find(rkey)
            if region is not None:
                region.view[va - region.va : va - region.va + len(payload)] = payload


@rc_mutant("RC-RESP-05")
class DuplicatesAreWritten(_EachRequest):
    """The payload of a duplicate is written once more."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] < 0:
            self._write_only(batch, row)
        super().on_request(batch, row)


@rc_mutant("RC-RESP-04", "RC-RESP-15")
class DuplicatesAreIgnored(_EachRequest):
    """A duplicate is not answered: if the ACK was lost, that is how it stays."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] >= 0:
            super().on_request(batch, row)


@rc_mutant("RC-RESP-15")
class UnaskedDuplicatesAreIgnored(_EachRequest):
    """A duplicate is not answered unless it asks."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] >= 0 or batch.view(row, 56, 57)[0] >> 7:
            super().on_request(batch, row)


@rc_mutant("RC-RESP-04")
class DuplicatesAreAcknowledgedOneByOne(_EachRequest):
    """A duplicate is acknowledged with its own PSN, as if nothing had come after it."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        ahead = self._head(batch, row)[2]
        super().on_request(batch, row)
        if ahead < 0:
            self._answer = (self.epsn + ahead & PSN_BITS_MASK, ACK_SYNDROME)


@rc_mutant("RC-RESP-04")
class AQuarterOfTheCircleIsBefore(_EachRequest):
    """Only the 2^22 PSNs before the expected one are duplicates."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] >= -(1 << 22):
            super().on_request(batch, row)
        elif not self._held_back:
            self._hold_back(NAK_SEQUENCE_ERROR)


@rc_mutant("RC-RESP-06")
class GapsAreSilent(_EachRequest):
    """A request behind a gap is dropped without a NAK: only a timeout helps."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] <= 0:
            super().on_request(batch, row)


@rc_mutant("RC-RESP-06")
class WhatIsBehindAGapIsWritten(_EachRequest):
    """A request behind a gap is NAKed, and written all the same."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[2] > 0:
            self._write_only(batch, row)
        super().on_request(batch, row)


@rc_mutant("RC-RESP-06")
class NaksNameWhatCame(_EachRequest):
    """The NAK of a gap has the PSN that came, not the one that is missing."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        ahead = self._head(batch, row)[2]
        super().on_request(batch, row)
        if ahead > 0 and self._answer is not None:
            self._answer = (self.epsn + ahead & PSN_BITS_MASK, NAK_SEQUENCE_ERROR)


@rc_mutant("RC-RESP-07")
class EachPacketBehindAGapIsNakked(_EachRequest):
    """A gap has as many NAKs as packets come behind it."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        self._held_back = False
        super().on_request(batch, row)


@rc_mutant("RC-RESP-08")
class OnlyTheFirstGapIsNakked(_EachRequest):
    """Once a gap has had its NAK no other gap has one."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        was = self._held_back
        super().on_request(batch, row)
        self._held_back |= was


@rc_mutant("RC-RESP-10")
class APieceIsWrittenOverTheOther(_EachRequest):
    """Each packet of a message is written to the VA in its First."""

    __slots__ = ()

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        super()._execute(batch, row, opcode, pad)
        if self._message is not None:
            rkey, va, left = self._message
            self._message = (rkey, va - self._config.path_mtu, left)


@rc_mutant("RC-RESP-11")
class NothingNeedsAKey(_EachRequest):
    """The R_Key of a write of 0 bytes is looked up."""

    __slots__ = ()

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        if opcode == RcOp.WRITE_ONLY:
            va, rkey, length = struct.unpack(">QII", batch.view(row, EXTENSION_AT, EXTENSION_AT + 16))
            if not length:
                self._region(rkey, va, 0)
        super()._execute(batch, row, opcode, pad)


@rc_mutant("RC-RESP-02")
class OnlyWholeMessagesAreAcknowledged(_EachRequest):
    """AckReq within a message is not answered before its end."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        super().on_request(batch, row)
        if self._message is not None and self._answer is not None and self._answer[1] == ACK_SYNDROME:
            self._answer = None


@rc_mutant("RC-RESP-01")
class Psn0IsSkipped(Responder):
    """Behind PSN 0xffffff comes PSN 1."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        super().on_request(batch, row)
        self.epsn = self.epsn or 1


@rc_mutant("RC-RESP-03")
class TheFirstAnswerStays(Responder):
    """Of requests that come at once the first that asks is answered, and no later one."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        waiting = self._answer
        super().on_request(batch, row)
        self._answer = waiting or self._answer


@rc_mutant("RC-WIRE-05")
class ThePadCountIsNotLookedAt(Responder):
    """The padding of a packet counts as payload."""

    __slots__ = ()

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        super()._execute(batch, row, opcode, 0)


# ---------------------------------------------------------------------- immediates


@rc_mutant("RC-IMM-01")
class ReceivesAreAStack(Responder):
    """An immediate consumes the receive that was posted last."""

    __slots__ = ()

    def _end_message(self, immediate: int | None) -> None:
        if immediate is not None:
            self._posted.rotate(1)
        super()._end_message(immediate)


@rc_mutant("RC-IMM-02")
class PlainWritesConsumeReceives(Responder):
    """Any write completes a receive, if there is one."""

    __slots__ = ()

    def _end_message(self, immediate: int | None) -> None:
        super()._end_message(0 if immediate is None and self._posted else immediate)


@rc_mutant("RC-IMM-03")
class ReceiversThatAreNotReadySayNothing(Responder):
    """An immediate that finds no receive is dropped without an RNR NAK."""

    __slots__ = ()

    def _hold_back(self, syndrome: int) -> None:
        super()._hold_back(syndrome)
        if syndrome != NAK_SEQUENCE_ERROR:
            self._answer = None


@rc_mutant("RC-IMM-03")
class NotReadyButWritten(_EachRequest):
    """The payload of an immediate that finds no receive is written."""

    __slots__ = ()

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        if opcode == RcOp.WRITE_ONLY_WITH_IMMEDIATE and not self._posted:
            self._write_only(batch, row)
        super()._execute(batch, row, opcode, pad)


@rc_mutant("RC-IMM-04")
class WhatFollowsAnRnrNakIsAGap(Responder):
    """What comes behind an immediate that was sent back draws a NAK of a sequence error."""

    __slots__ = ()

    def _hold_back(self, syndrome: int) -> None:
        super()._hold_back(syndrome)
        self._held_back = syndrome == NAK_SEQUENCE_ERROR


# ---------------------------------------------------------------------- refusals


@rc_mutant("RC-ERR-01")
class AnyKeyOpensTheMemory(Responder):
    """The R_Key is not looked at."""

    __slots__ = ()

    def _region(self, rkey: int, va: int, left: int) -> MemoryRegion:
        return super()._region(next(iter(self._memory)).rkey, va, left)


@rc_mutant("RC-ERR-02")
class OnlyThePacketHasToFit(Responder):
    """Of a message only the packet at hand has to lie within the memory."""

    __slots__ = ()

    def _region(self, rkey: int, va: int, left: int) -> MemoryRegion:
        return super()._region(rkey, va, min(left, self._config.path_mtu))


@rc_mutant("RC-ERR-02")
class TheLastByteIsOutside(Responder):
    """The last byte of the memory may not be written."""

    __slots__ = ()

    def _region(self, rkey: int, va: int, left: int) -> MemoryRegion:
        return super()._region(rkey, va, left + 1)


@rc_mutant("RC-ERR-03")
class AMessageMayBeginAnywhere(_EachRequest):
    """A First or Only within a message begins another one."""

    __slots__ = ()

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        if opcode in (RcOp.WRITE_FIRST, *_ONLYS):
            self._message = None
        super()._execute(batch, row, opcode, pad)


@rc_mutant("RC-ERR-04")
class LengthsDoNotMatter(Responder):
    """What a packet carries is not held to its place and to the RETH."""

    __slots__ = ()

    def _fits(self, size: int, left: int, *, full: bool, ends: bool) -> bool:
        return True


@rc_mutant("RC-ERR-05")
class WhatIsNotServedIsDropped(_EachRequest):
    """A SEND or a READ is dropped without a word."""

    __slots__ = ()

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        if self._head(batch, row)[0] in WRITES:
            super().on_request(batch, row)


@rc_mutant("RC-ERR-07")
def refusals_end_nothing(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """A refused request is NAKed, and the QP goes on."""
    qp._responder._fail = lambda status, why: None
