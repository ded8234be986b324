# SPDX-License-Identifier: BSD-2-Clause
"""Responders that refuse what they should take, take what they should refuse, or do not say it as MRC does."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.memory import LENGTH, MemoryRegion, MemoryTable
from mrc.endpoint.refusals import Verdict
from mrc.endpoint.responder.responder import Responder
from mrc.wire.fields import COMMON
from mrc.wire.names import NackReason
from mrc.wire.psn import PSN_HALF
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import ACKREQ, PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.responders import _EachRequest, payload_of, request_fields

_RNR_NAK = 0x2E


@mutant("MRC-WIRE-18")
class NoReceiveIsAnRnrNak(Responder):
    """A write with immediate that finds no receive is answered with an RNR NAK and may come again, as in RoCEv2 RC."""

    def _refuse(self) -> None:
        refusal = self._receives.refusal
        if refusal.verdict != Verdict.NO_RECEIVE:
            super()._refuse()
            return
        self._refused_psn, self._refused_syndrome = refusal.psn & PSN_BITS_MASK, _RNR_NAK
        self._nak_due = True


@mutant("MRC-RESP-05")
class AcksHaveToBeAskedFor(Responder):
    """A transport ACK is sent only when a request has AckReq, as in RoCEv2 RC."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        due = self._ack_due
        super().on_request(batch, packet, now)
        if not packet.psn_word & ACKREQ:
            self._ack_due = due


@mutant("MRC-RESP-05")
class SacksStandForAcks(Responder):
    """No transport ACK is sent where a SACK says as much."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        if self.sacks.pending.count:
            self._ack_due = False
        return super().transmit(batch, limit, now)


class _HalfTheCircleAway(Responder):
    """What comes of a request half the circle away from epsn is up to `take_oldest`; only the others are checked."""

    def take_oldest(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        raise NotImplementedError

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        if packet.psn - self.received.epsn & PSN_BITS_MASK == PSN_HALF:
            self.take_oldest(batch, packet, now)
        else:
            super().on_request(batch, packet, now)


@mutant("MRC-RESP-10")
class TheOldestPsnIsADuplicate(_HalfTheCircleAway):
    """PSN epsn - 2^23 counts as an old duplicate too, and is answered."""

    def take_oldest(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        words = batch.fields(COMMON)["psn_word"]
        words[packet.row] = packet.psn_word & ~PSN_BITS_MASK | self.received.cack_psn & PSN_BITS_MASK
        packet.read(batch, packet.row)
        Responder.on_request(self, batch, packet, now)


@mutant("MRC-RESP-10")
class TheOldestPsnIsBeyondTheWindow(_HalfTheCircleAway):
    """PSN epsn - 2^23 is taken for epsn + 2^23, which is beyond the window, and NACKed."""

    def take_oldest(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        self._nack(batch, packet, self.received.epsn + PSN_HALF, NackReason.PSN_OOR_WINDOW, now)


@mutant("MRC-RESP-10")
class TheOldestPsnIsNotCounted(_HalfTheCircleAway):
    """PSN epsn - 2^23 is dropped, and no counter says so."""

    def take_oldest(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        return


@mutant("MRC-RESP-13", at_creation=True)
class OneByteBehindTheRegionIsOpen(MemoryTable):
    """A range may end one byte behind its region."""

    def register(self, buffer: Any, *, va: int | None = None, remote_write: bool = True) -> MemoryRegion:
        roomy = bytearray(len(buffer) + 1)
        region = super().register(memoryview(roomy)[:-1], va=va, remote_write=remote_write)
        if remote_write:
            self.open.cells[self.row(region.rkey) + LENGTH] += 1
        return region


@mutant("MRC-RESP-13", at_creation=True)
class TheLastByteOfARegionIsClosed(MemoryTable):
    """A range may not hold the last byte of its region."""

    def register(self, buffer: Any, *, va: int | None = None, remote_write: bool = True) -> MemoryRegion:
        region = super().register(buffer, va=va, remote_write=remote_write)
        if remote_write:
            self.open.cells[self.row(region.rkey) + LENGTH] -= 1
        return region


@mutant("MRC-RESP-13")
class RangesMayWrap(_EachRequest):
    """A range whose end wraps counts as inside its region; its payload goes to the beginning of that."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        fields, (start, end) = request_fields(batch, packet.row), payload_of(batch, packet.row)
        if int(fields["va"][0]) + end - start >= 1 << 64:
            fields["va"] = next(iter(self._memory)).va
        super().on_request(batch, packet, now)


@mutant("MRC-WIRE-23")
class PaddingIsWritten(_EachRequest):
    """The padding of a request is written behind its payload."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        super().on_request(batch, packet, now)
        fields, (start, end) = request_fields(batch, packet.row)[0], payload_of(batch, packet.row)
        region, padding = self._memory.find(int(fields["rkey"])), batch.view(packet.row, end, packet.length - 4)
        at = int(fields["va"]) + end - start
        if region is not None and end > start and region.va <= at <= region.va + region.length - len(padding):
            region.view[at - region.va : at - region.va + len(padding)] = padding
