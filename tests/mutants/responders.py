# SPDX-License-Identifier: BSD-2-Clause
"""Responders that take, write or answer what they should not."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.datapath.qp_datapath import PeerSources
from mrc.endpoint.datapath.qps import QpTable
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.refusals import Verdict
from mrc.endpoint.responder.received import ReceiveWindow
from mrc.endpoint.responder.responder import Responder
from mrc.wire.fields import COMMON, REQUEST, REQUEST_TS, Fields
from mrc.wire.names import NackReason
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import EXTENSION_AT, EXTENSION_LENGTH, PAD_SHIFT, PSN_BITS_MASK, TS, UDP_AT
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant, taken

_SOURCE = slice(8, 24)


def request_fields(batch: ReceivedBatch, row: int) -> Fields:
    """The fields of a request, to be read or changed; its packet is at least a BTH long."""
    timed = int(batch.fields(COMMON)["psn_word"][row]) & TS
    return batch.fields(REQUEST_TS if timed else REQUEST)[row : row + 1]


def payload_of(batch: ReceivedBatch, row: int) -> tuple[int, int]:
    """Where in a request its payload begins and ends, before the padding."""
    fields = batch.fields(COMMON)[row]
    start = EXTENSION_AT + int(EXTENSION_LENGTH[fields["opcode"]])
    start += HEADER_LENGTHS["tseth"] if int(fields["psn_word"]) & TS else 0
    return start, batch.lengths[row] - ICRC_LENGTH - (int(fields["flags"]) >> PAD_SHIFT & 3)


class _EachRequest(Responder):
    """Looks at each request before or after it is taken."""

    @property
    def _memory(self) -> MemoryTable:
        return self._checks._memory

    def _psn(self, batch: ReceivedBatch, packet: ReceivedPacket) -> int:
        return unwrap(int(batch.fields(COMMON)["psn_word"][packet.row]) & PSN_BITS_MASK, self.received.epsn)

    def _write(self, batch: ReceivedBatch, packet: ReceivedPacket) -> None:
        """Write the payload of a request whatever its PSN says."""
        fields, (start, end) = request_fields(batch, packet.row)[0], payload_of(batch, packet.row)
        region = self._memory.find(int(fields["rkey"]))
        if region is not None and end > start:
            offset = int(fields["va"]) - region.va
            region.view[offset : offset + end - start] = batch.view(packet.row, start, end)


@mutant("MRC-RESP-06")
class OldDuplicatesAreWritten(_EachRequest):
    """The payload of a duplicate below epsn is written once more."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        if self._psn(batch, packet) < self.received.epsn:
            self._write(batch, packet)
        super().on_request(batch, packet, now)


@mutant("MRC-RESP-07")
class DuplicatesAboveAHoleAreWritten(_EachRequest):
    """The payload of a duplicate above epsn is written once more."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        psn = self._psn(batch, packet)
        if self.received.epsn <= psn <= self.received.highest and self.received.has(psn):
            self._write(batch, packet)
        super().on_request(batch, packet, now)


@mutant("MRC-RESP-06")
class OldDuplicatesAreIgnored(_EachRequest):
    """A duplicate below epsn is not answered: if the acknowledgement was lost, that is how it stays."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        if self._psn(batch, packet) >= self.received.epsn:
            super().on_request(batch, packet, now)


@mutant("MRC-RESP-04")
class OnlyWhatIsInOrderIsTaken(_EachRequest):
    """Go-back-N: a request above a hole is thrown away."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        if self._psn(batch, packet) <= self.received.epsn:
            super().on_request(batch, packet, now)


@mutant("MRC-SACK-14")
class RcvdBytesCountsDuplicates(_EachRequest):
    """rcvd_bytes counts every packet, those that came before as well."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        counted = self.sacks.received_bytes + int(batch.fields(COMMON)["ip_plen"][packet.row]) + UDP_AT
        super().on_request(batch, packet, now)
        self.sacks.received_bytes = counted


@mutant("MRC-ACK-10", "MRC-ACK-11")
class EveryRequestIsAcked(_EachRequest):
    """A transport ACK is sent for any batch of requests, whether the left edge moved or not."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        super().on_request(batch, packet, now)
        self._ack_due = self._refused_psn < 0


@mutant("MRC-ACK-09")
class AnAckAPacket(Responder):
    """A transport ACK is sent for every packet of a batch."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        super().on_request(batch, packet, now)
        self._counters.acks_sent += 1 << 32

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        requests, self._counters.acks_sent = divmod(self._counters.acks_sent, 1 << 32)
        due = self._ack_due
        sent = super().transmit(batch, limit, now)
        if due:
            for _ in range(min(requests - 1, batch.free)):
                self._ack_due = True
                sent += super().transmit(batch, limit, now)
        return sent


class _Aeths(Responder):
    """AETHs that say something else."""

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, syndrome

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        super()._transmit_aeth(batch, *self.aeth(psn, syndrome), now)


@mutant("MRC-ACK-04")
class AcksHaveCredits(_Aeths):
    """An ACK has syndrome 0x00 instead of 0x1f."""

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, 0 if syndrome == 0x1F else syndrome


@mutant("MRC-ACK-07")
class AcksNameTheHighestPsn(_Aeths):
    """The PSN of an ACK is the highest received, holes or not."""

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return self.received.highest & PSN_BITS_MASK if syndrome == 0x1F else psn, syndrome


@mutant("MRC-ACK-08")
class NaksNameCackPsn(_Aeths):
    """The PSN of a NAK is cack_psn and not that of the request it refuses."""

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return (psn if syndrome == 0x1F else self.received.cack_psn & PSN_BITS_MASK), syndrome


@mutant("MRC-ACK-03", "MRC-RESP-13", "MRC-RESP-14")
class NakSyndromesTurnedRound(_Aeths):
    """A bad R_Key is NAKed as an invalid request and a bad length as a remote access error."""

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, {0x61: 0x62, 0x62: 0x61}.get(syndrome, syndrome)


@mutant("MRC-ACK-06")
class MsnCountsPackets(Responder):
    """The MSN of an ACK counts packets instead of messages."""

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        messages = self.received.completed
        self.received.completed = unwrap(psn - self.window._granted, 0) + self.window.units * 128 + 1
        super()._transmit_aeth(batch, psn, syndrome, now)
        self.received.completed = messages


@mutant("MRC-ACK-05")
class GapsAreNakked(_EachRequest):
    """A request above a hole is NAKed with a PSN sequence error, as RoCEv2 RC does."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        super().on_request(batch, packet, now)
        if self.received.held and self._refused_psn < 0:
            self._refused_psn, self._refused_syndrome = self.received.epsn & PSN_BITS_MASK, 0x60
            self._nak_due = True


@mutant("MRC-RESP-11", "MRC-RESP-08", "MRC-RESP-09")
class WindowOneTooLarge(ReceiveWindow):
    """The window reaches one PSN too far."""

    def end(self, epsn: int) -> int:
        return super().end(epsn) + 1


@mutant("MRC-RESP-11")
class WindowOneTooSmall(ReceiveWindow):
    """The last PSN of the window is refused."""

    def end(self, epsn: int) -> int:
        return super().end(epsn) - 1


@mutant("MRC-RESP-09")
def silent_beyond_the_window(endpoint: Endpoint, qp: QueuePair) -> None:
    """A PSN beyond the window is dropped without a NACK."""
    responder: Any = qp.responder
    responder._nacks_beyond = False


@mutant("MRC-WIRE-27")
class NacksWithoutRtx(Responder):
    """A NACK never has the rtx bit."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        for answer in taken(self.nacks.pending):
            answer.rtx = False
            self.nacks.pending.add(answer)
        return super().transmit(batch, limit, now)


@mutant("MRC-WIRE-31", "MRC-RESP-09")
class NacksNameEpsn(Responder):
    """A NACK names the PSN that is expected next and not the one it refuses."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        for answer in taken(self.nacks.pending):
            if answer.reason == NackReason.PSN_OOR_WINDOW:
                answer.psn = self.received.epsn
            self.nacks.pending.add(answer)
        return super().transmit(batch, limit, now)


@mutant("MRC-RESP-13")
class AnyRkeyOpens(MemoryTable):
    """A request with an R_Key that was never given out is written to the first region there is."""

    def row(self, rkey: int) -> int:
        found = super().row(rkey)
        first = next((region.rkey for region in self), None)
        return super().row(first) if found < 0 and first is not None else found


@mutant("MRC-RESP-16")
class EmptyWritesAreRefused(_EachRequest):
    """A write without payload is NAKed."""

    def _judge(self) -> int:
        if not self._request.dmalen:
            return self._receives.refusal.of(Verdict.NO_REGION, self._request.psn, self._request.rkey, 0)
        return super()._judge()


@mutant("MRC-RESP-21")
class EmptyWritesNeedAnRkey(_EachRequest):
    """The R_Key of a write without payload is checked like any other."""

    def _judge(self) -> int:
        if self._memory.find(self._request.rkey) is None:
            return self._receives.refusal.of(Verdict.NO_REGION, self._request.psn, self._request.rkey, 0)
        return super()._judge()


@mutant("MRC-RESP-15")
class RefusalsDoNotEndTheQp(Responder):
    """A bad request is NAKed, and the QP goes on as if nothing had happened."""

    def _refuse(self) -> None:
        refusal = self._receives.refusal
        self._refused_psn, self._refused_syndrome = refusal.psn & PSN_BITS_MASK, refusal.reason.syndrome
        self._nak_due = True


@mutant("MRC-RESP-02")
class AnySourceIsTrusted(PeerSources):
    """The source address of a packet is not looked at."""

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        return True


@mutant("MRC-RESP-02")
class SourcesOfAllPlanesInOneSet(PeerSources):
    """An address of the peer's is trusted on whatever plane it comes in."""

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        source, size = batch.view(packet.row, _SOURCE.start, _SOURCE.stop), _SOURCE.stop - _SOURCE.start
        return any(
            known and source == self._addresses[port * size : port * size + size]
            for port, known in enumerate(self._known)
        )


@mutant("MRC-RESP-03")
def epsn_starts_one_too_high(endpoint: Endpoint, qp: QueuePair) -> None:
    """The peer's first PSN is taken for one that has come."""
    received = qp.responder.received
    received.epsn += 1
    received.highest += 1


class _AnyQpn(QpTable):
    def find(self, qpn: int) -> int:
        found = super().find(qpn)
        return found if found >= 0 else next(filter(self.holds, range(self.room)), found)


@mutant("MRC-RESP-01")
def any_qpn_will_do(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet for a QP that does not exist goes to one that does."""
    qps: Any = endpoint.datapath.qps
    qps.__class__ = _AnyQpn
