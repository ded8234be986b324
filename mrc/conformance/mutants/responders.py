"""Responders that take, write or answer what they should not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion, MemoryTable
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.operation_answers import ENDPOINT_QPN
from mrc.endpoint.peer_sources import PeerSources
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import I64
from mrc.endpoint.received_requests import ReceivedRequests
from mrc.endpoint.request_checks import NAK_REMOTE_ACCESS, RefusedRequest
from mrc.endpoint.responder import Responder
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch


class _EachRequest(Responder):
    """Looks at each request before or after it is taken; every packet takes the long way."""

    __slots__ = ()

    def on_few_requests(self, batch: ReceivedBatch, rows: list[int], now: int) -> int:
        return 0

    def _write(self, requests: ReceivedRequests, position: int) -> None:
        """Write the payload of a request whatever its PSN says."""
        chosen = np.array([position])
        payload_at = requests.payload_at(chosen)
        size, start = int(requests.payload_lengths(chosen, payload_at)[0]), int(payload_at[0])
        region = self._memory.find(int(requests.extension("rkey", chosen)[0]))
        if region is not None and size > 0:
            offset = int(requests.extension("va", chosen)[0]) - region.va
            row = int(requests.rows[position])
            region.view[offset : offset + size] = requests.batch.data[row, start : start + size].tobytes()

    def _psns(self, requests: ReceivedRequests) -> list[int]:
        epsn = self.received.epsn
        return [unwrap(word & PSN_BITS_MASK, epsn) for word in requests.words.tolist()]


@mutant("MRC-RESP-06")
class OldDuplicatesAreWritten(_EachRequest):
    """The payload of a duplicate below epsn is written once more."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        requests = ReceivedRequests(batch, rows)
        for position, psn in enumerate(self._psns(requests)):
            if psn < self.received.epsn:
                self._write(requests, position)
        super().on_requests(batch, rows, now)


@mutant("MRC-RESP-07")
class DuplicatesAboveAHoleAreWritten(_EachRequest):
    """The payload of a duplicate above epsn is written once more."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        requests = ReceivedRequests(batch, rows)
        for position, psn in enumerate(self._psns(requests)):
            if self.received.epsn <= psn <= self.received.highest and self.received.has(psn):
                self._write(requests, position)
        super().on_requests(batch, rows, now)


@mutant("MRC-RESP-06")
class OldDuplicatesAreIgnored(_EachRequest):
    """A duplicate below epsn is not answered: if the acknowledgement was lost, that is how it stays."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        psns = np.array(self._psns(ReceivedRequests(batch, rows)))
        rows = rows[psns >= self.received.epsn]
        if len(rows):
            super().on_requests(batch, rows, now)


@mutant("MRC-RESP-04")
class OnlyWhatIsInOrderIsTaken(_EachRequest):
    """Go-back-N: a request above a hole is thrown away."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        for row in rows:
            one = np.array([row])
            if self._psns(ReceivedRequests(batch, one))[0] <= self.received.epsn:
                super().on_requests(batch, one, now)


@mutant("MRC-SACK-14")
class RcvdBytesCountsDuplicates(_EachRequest):
    """rcvd_bytes counts every packet, those that came before as well."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        counted = self.sacks.received_bytes + int(ReceivedRequests(batch, rows).sizes.sum())
        super().on_requests(batch, rows, now)
        self.sacks.received_bytes = counted


@mutant("MRC-ACK-10", "MRC-ACK-11")
class EveryRequestIsAcked(_EachRequest):
    """A transport ACK is sent for any batch of requests, whether the left edge moved or not."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        super().on_requests(batch, rows, now)
        self._ack_due = self._refused is None


@mutant("MRC-ACK-09")
class AnAckAPacket(Responder):
    """A transport ACK is sent for every packet of a batch."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        super().on_requests(batch, rows, now)
        self._counters.acks_sent += max(len(rows) - 1, 0) << 32

    def on_few_requests(self, batch: ReceivedBatch, rows: list[int], now: int) -> int:
        taken = super().on_few_requests(batch, rows, now)
        self._counters.acks_sent += max(taken - 1, 0) << 32
        return taken

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        more, self._counters.acks_sent = divmod(self._counters.acks_sent, 1 << 32)
        due = self._ack_due
        sent = super().transmit(batch, limit, now)
        if due:
            for _ in range(min(more, batch.free)):
                self._ack_due = True
                sent += super().transmit(batch, limit, now)
        return sent


class _Aeths(Responder):
    """AETHs that say something else."""

    __slots__ = ()

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, syndrome

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        super()._transmit_aeth(batch, *self.aeth(psn, syndrome), now)


@mutant("MRC-ACK-04")
class AcksHaveCredits(_Aeths):
    """An ACK has syndrome 0x00 instead of 0x1f."""

    __slots__ = ()

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, 0 if syndrome == 0x1F else syndrome


@mutant("MRC-ACK-07")
class AcksNameTheHighestPsn(_Aeths):
    """The PSN of an ACK is the highest received, holes or not."""

    __slots__ = ()

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return self.received.highest & PSN_BITS_MASK if syndrome == 0x1F else psn, syndrome


@mutant("MRC-ACK-08")
class NaksNameCackPsn(_Aeths):
    """The PSN of a NAK is cack_psn and not that of the request it refuses."""

    __slots__ = ()

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return (psn if syndrome == 0x1F else self.received.cack_psn & PSN_BITS_MASK), syndrome


@mutant("MRC-ACK-03", "MRC-RESP-13", "MRC-RESP-14")
class NakSyndromesTurnedRound(_Aeths):
    """A bad R_Key is NAKed as an invalid request and a bad length as a remote access error."""

    __slots__ = ()

    def aeth(self, psn: int, syndrome: int) -> tuple[int, int]:
        return psn, {0x61: 0x62, 0x62: 0x61}.get(syndrome, syndrome)


@mutant("MRC-ACK-06")
class MsnCountsPackets(Responder):
    """The MSN of an ACK counts packets instead of messages."""

    __slots__ = ()

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        messages = self.received.completed
        self.received.completed = unwrap(psn - self.window._told, 0) + self.window.units * 128 + 1
        super()._transmit_aeth(batch, psn, syndrome, now)
        self.received.completed = messages


@mutant("MRC-ACK-05")
class GapsAreNakked(_EachRequest):
    """A request above a hole is NAKed with a PSN sequence error, as RoCEv2 RC does."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        super().on_requests(batch, rows, now)
        if self.received.held and self._refused is None:
            self._refused = (self.received.epsn & PSN_BITS_MASK, 0x60)
            self._nak_due = True


@mutant("MRC-RESP-11", "MRC-RESP-08", "MRC-RESP-09")
class WindowOneTooLarge(ReceiveWindow):
    """The window reaches one PSN too far."""

    __slots__ = ()

    def end(self, epsn: int) -> int:
        return super().end(epsn) + 1


@mutant("MRC-RESP-11")
class WindowOneTooSmall(ReceiveWindow):
    """The last PSN of the window is refused."""

    __slots__ = ()

    def end(self, epsn: int) -> int:
        return super().end(epsn) - 1


@mutant("MRC-RESP-09")
def silent_beyond_the_window(endpoint: Endpoint, qp: QueuePair) -> None:
    """A PSN beyond the window is dropped without a NACK."""
    responder: Any = qp.responder
    responder._psn_checks._config = replace(qp.config.responder, nack_out_of_window=False)


@mutant("MRC-WIRE-27")
class NacksWithoutRtx(Responder):
    """A NACK never has the rtx bit."""

    __slots__ = ()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        waiting = self.nacks.pending.take(self.nacks.pending.count)
        for refusal in waiting:
            refusal.reflected.rtx = False
            self.nacks.pending.add(refusal)
        return super().transmit(batch, limit, now)


@mutant("MRC-WIRE-31", "MRC-RESP-09")
class NacksNameEpsn(Responder):
    """A NACK names the PSN that is expected next and not the one it refuses."""

    __slots__ = ()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        waiting = self.nacks.pending.take(self.nacks.pending.count)
        for refusal in waiting:
            if refusal.reason == NackReason.PSN_OOR_WINDOW:
                refusal.psn = self.received.epsn
            self.nacks.pending.add(refusal)
        return super().transmit(batch, limit, now)


@mutant("MRC-RESP-13")
class AnyRkeyOpens(MemoryTable):
    """A request with an R_Key that nobody gave out is written to the first region there is."""

    __slots__ = ()

    def find(self, rkey: int) -> MemoryRegion | None:
        return super().find(rkey) or next(iter(self), None)


@mutant("MRC-RESP-16")
class EmptyWritesNeedAnRkey(_EachRequest):
    """The R_Key of a write without payload is checked like any other."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        requests = ReceivedRequests(batch, rows)
        keys = requests.extension("rkey", np.arange(len(rows))).tolist()
        for psn, rkey in zip(self._psns(requests), keys, strict=True):
            if self._memory.find(rkey) is None:
                self._refuse(RefusedRequest(psn, NAK_REMOTE_ACCESS, "names no region"))
                return
        super().on_requests(batch, rows, now)


@mutant("MRC-RESP-15")
class RefusalsDoNotEndTheQp(Responder):
    """A bad request is NAKed, and the QP goes on as if nothing had happened."""

    __slots__ = ()

    def _refuse(self, refusal: RefusedRequest) -> None:
        self._refused = (refusal.psn & PSN_BITS_MASK, refusal.syndrome)
        self._nak_due = True


@mutant("MRC-RESP-02")
class AnySourceIsTrusted(PeerSources):
    """The source address of a packet is not looked at."""

    __slots__ = ()

    def has_sent_one(self, batch: ReceivedBatch, row: int) -> bool:
        return True

    def has_sent(self, batch: ReceivedBatch, rows: I64) -> npt.NDArray[np.bool_]:
        return np.ones(len(rows), np.bool_)


@mutant("MRC-RESP-02")
class SourcesOfAllPlanesInOneSet(PeerSources):
    """An address of the peer's is trusted on whatever plane it comes in."""

    __slots__ = ()

    def has_sent_one(self, batch: ReceivedBatch, row: int) -> bool:
        return bytes(batch.view(row, 8, 24)) in self._addresses.values()

    def has_sent(self, batch: ReceivedBatch, rows: I64) -> npt.NDArray[np.bool_]:
        return np.array([self.has_sent_one(batch, row) for row in rows.tolist()], np.bool_)


@mutant("MRC-RESP-03")
def epsn_starts_one_too_high(endpoint: Endpoint, qp: QueuePair) -> None:
    """The peer's first PSN is taken for one that has come."""
    received = qp.responder.received
    received.epsn += 1
    received.highest += 1


@mutant("MRC-RESP-01")
class AnyQpnWillDo(Endpoint):
    """A packet for a QP that does not exist goes to one that does."""

    def _dispatch(self, qpn: int, batch: ReceivedBatch, rows: I64, opcodes: npt.NDArray[np.uint8], now: int) -> None:
        if qpn != ENDPOINT_QPN and qpn not in self.qps:
            qpn = next(iter(self.qps))
        super()._dispatch(qpn, batch, rows, opcodes, now)
