"""Endpoints that break down under what they are sent, count nothing of it, or believe it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.arrivals import Arrivals
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.counters import Counters
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.feedback import Feedback
from mrc.endpoint.nacked import RESPONSES, NackHandler, NackReason
from mrc.endpoint.operations import EndpointOperations
from mrc.endpoint.packet_checks import PacketChecks
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.received import I64
from mrc.endpoint.received_requests import ReceivedRequests
from mrc.endpoint.request_checks import placements, shapes
from mrc.endpoint.responder import Responder
from mrc.endpoint.sacks import SackMaker, Trigger
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import COMMON, NACK, PSN_BITS_MASK, U8

_BTH_END = 60


class _LookedAt(Endpoint):
    """Looks at each batch before anything is checked."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        self.look_at(batch)
        super().receive(batch, now)

    def look_at(self, batch: ReceivedBatch) -> None:
        raise NotImplementedError


@mutant("MRC-ERR-01")
class PacketsWithoutABthRaise(_LookedAt):
    """The opcode of a packet is read before its length is looked at: one that ends before it raises."""

    def look_at(self, batch: ReceivedBatch) -> None:
        for row, length in enumerate(batch.length.tolist()):
            bytes(batch.view(row, 0, length))[_BTH_END - 12]


@mutant("MRC-ERR-01")
class OneShortPacketShutsTheDoor(Endpoint):
    """Once a packet has come that was too short nothing is taken any more."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        if not self.counters.too_short:
            super().receive(batch, now)


@mutant("MRC-ERR-01")
class ABadPacketTakesItsBurstWithIt(Endpoint):
    """When one packet of a burst has a wrong ICRC or length the whole burst is dropped."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        rows, trimmed = self._checks.sound_rows(batch)
        if len(rows) == batch.count or trimmed is not None:
            super().receive(batch, now)


class _Requests(Responder):
    """Looks at each request of its QP before it is checked."""

    __slots__ = ()

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        self.look_at(batch, rows)
        super().on_requests(batch, rows, now)

    def on_few_requests(self, batch: ReceivedBatch, rows: list[int], now: int) -> int:
        return 0

    def look_at(self, batch: ReceivedBatch, rows: I64) -> None:
        raise NotImplementedError

    @staticmethod
    def extension(batch: ReceivedBatch, rows: I64, name: str) -> list[int]:
        numbers: list[int] = ReceivedRequests(batch, rows).extension(name, np.arange(len(rows))).tolist()
        return numbers


@mutant("MRC-ERR-01")
class LengthsAreSigned(_Requests):
    """A DMALen of 2^31 or more does not fit the number it is put into."""

    __slots__ = ()

    def look_at(self, batch: ReceivedBatch, rows: I64) -> None:
        for dmalen in self.extension(batch, rows, "dmalen"):
            dmalen.to_bytes(4, "big", signed=True)


@mutant("MRC-ERR-01")
class AddressesAreSigned(_Requests):
    """A VA of 2^63 or more does not fit the number it is put into."""

    __slots__ = ()

    def look_at(self, batch: ReceivedBatch, rows: I64) -> None:
        for va in self.extension(batch, rows, "va"):
            va.to_bytes(8, "big", signed=True)


@mutant("MRC-ERR-01")
class EveryReasonHasAName(Feedback):
    """A NACK with a reason that is not in the table raises."""

    __slots__ = ()

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        NackReason(int(batch.fields(NACK)["reason"][row]))
        super().on_nack(batch, row, now)


@mutant("MRC-ERR-01")
class AHundredAnswersAreTheMost(SackMaker):
    """More than 100 answers that are due at once raise."""

    __slots__ = ()

    def on_probe(self, trigger: Trigger) -> None:
        if self.pending.count >= 100:
            raise OverflowError("too many answers are due")
        super().on_probe(trigger)


@mutant("MRC-ERR-02")
def what_is_malformed_is_not_counted(endpoint: Endpoint, qp: QueuePair) -> None:
    """Packets that are malformed are dropped and not counted."""
    checks: Any = endpoint._checks
    checks._counters = Counters()


@mutant("MRC-ERR-02")
class ABurstIsCountedOnce(PacketChecks):
    """Of several malformed packets that come at once one is counted."""

    __slots__ = ()

    def _sorted_out(self, batch: ReceivedBatch) -> Any:
        counters, kept = self._counters, self._counters.as_dict(zeros=True)
        found = super()._sorted_out(batch)
        for name, before in kept.items():
            setattr(counters, name, min(getattr(counters, name), before + 1))
        return found


class _TakenAnyway(PacketChecks):
    """Takes, of what is not as it should be, what it is not careful about: `taken` says of a row whether it is."""

    __slots__ = ()

    def taken(self, batch: ReceivedBatch, row: int) -> bool:
        raise NotImplementedError

    def _all_well_formed(self, batch: ReceivedBatch) -> bool:
        return super()._all_well_formed(batch) or all(self.taken(batch, row) for row in range(batch.count))

    def _well_formed(self, batch: ReceivedBatch, row: int, length: int) -> bool:
        return super()._well_formed(batch, row, length) or self.taken(batch, row)


@mutant("MRC-ERR-02")
class ControlPacketsMayHaveATail(_TakenAnyway):
    """What follows the header of an ACK is not minded."""

    __slots__ = ()

    def taken(self, batch: ReceivedBatch, row: int) -> bool:
        fields = batch.fields(COMMON)[row]
        length = int(batch.length[row])
        whole = int(fields["ip_plen"]) == int(fields["udp_len"]) == length - 40
        right = int(fields["udp_dport"]) == 4791 and int(fields["flags"]) == 0
        return bool(whole and right and int(fields["opcode"]) == Op.ACKNOWLEDGE and length > 68)


@mutant("MRC-ERR-02")
class PaddingIsNotMinded(_TakenAnyway):
    """The pad count of an ACK is not minded."""

    __slots__ = ()

    def taken(self, batch: ReceivedBatch, row: int) -> bool:
        fields = batch.fields(COMMON)[row]
        whole = int(fields["ip_plen"]) == int(fields["udp_len"]) == 28 and int(batch.length[row]) == 68
        right = int(fields["udp_dport"]) == 4791 and int(fields["flags"]) & 15 == 0
        return bool(whole and right and int(fields["opcode"]) == Op.ACKNOWLEDGE)


@mutant("MRC-ERR-02")
class UdpLengthsAreNotMinded(_TakenAnyway):
    """The UDP length of an RDMA WRITE Only is not looked at."""

    __slots__ = ()

    def taken(self, batch: ReceivedBatch, row: int) -> bool:
        fields = batch.fields(COMMON)[row]
        length = int(batch.length[row])
        right = int(fields["ip_plen"]) == length - 40 and int(fields["udp_dport"]) == 4791
        return bool(
            right and int(fields["opcode"]) == Op.WRITE_ONLY and length > 100 and int(fields["flags"]) & 15 == 0
        )


@mutant("MRC-ERR-02")
class AnyNakIsBelieved(Feedback):
    """A NAK ends the QP whatever PSN it names."""

    __slots__ = ()

    def on_nak(self, psn: int, status: WorkStatus, detail: str) -> None:
        self._fail(status, detail, self._sent.una)


@mutant("MRC-ERR-02")
class AnyUnexpectedEventIsBelieved(NackHandler):
    """UNEXP_EVENT ends the QP whatever PSN it names."""

    __slots__ = ()

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        if batch.fields(NACK)["reason"][row] == NackReason.UNEXP_EVENT:
            self._fail(WorkStatus.REMOTE_OPERATION_ERROR, "the peer cannot go on", self._sent.una)
            return
        super().on_nack(batch, row, now)


@mutant("MRC-ERR-02")
class UnknownReasonsLose(NackHandler):
    """A NACK with a reason that is not in the table is taken for TRIMMED_LASTHOP."""

    __slots__ = ()

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        reasons = batch.fields(NACK)["reason"]
        if int(reasons[row]) not in RESPONSES:
            reasons[row] = NackReason.TRIMMED_LASTHOP
        super().on_nack(batch, row, now)


@mutant("MRC-ERR-02")
class UnknownSyndromesAcknowledge(Arrivals):
    """An AETH whose syndrome is not in the table is taken for an ACK."""

    __slots__ = ()

    def _on_aeth(self, batch: ReceivedBatch, row: int, now: int) -> None:
        if int(batch.data[row, _BTH_END]) not in (0x61, 0x62, 0x63):
            batch.data[row, _BTH_END] = 0x1F
        super()._on_aeth(batch, row, now)


@mutant("MRC-SEND-09")
class BitsBeyondAreOverlooked(Feedback):
    """Of a SACK that reports PSNs never sent what is left is taken."""

    __slots__ = ()

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        unsent = self._counters.ack_for_unsent_psn
        super().on_sack(batch, row, now)
        self._counters.ack_for_unsent_psn = unsent


@mutant("MRC-ERR-02")
class OldRequestsAreWrittenAgain(_Requests):
    """A request that has been taken before is written once more when it comes again."""

    __slots__ = ()

    def look_at(self, batch: ReceivedBatch, rows: I64) -> None:
        requests = ReceivedRequests(batch, rows)
        behind = self.received.epsn - requests.words & PSN_BITS_MASK
        old = np.flatnonzero((behind > 0) & (behind < 1 << 10) & (requests.opcodes == Op.WRITE_ONLY))
        if len(old):
            path_mtu = self._config.path_mtu
            found = shapes(requests, old, behind, path_mtu)
            for write in placements(requests, found, behind, path_mtu, self._memory):
                write.execute(batch.data)


@mutant("MRC-ERR-02")
class OldAnswersLose(Feedback):
    """A SACK that brings no news has the oldest packet that is out sent again."""

    __slots__ = ()

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        sent = self._sent
        una = sent.una
        super().on_sack(batch, row, now)
        if sent.una == una < sent.next_psn and sent.outstanding:
            sent.skip_settled()
            self._lose([sent.head], "hole", now)


@mutant("MRC-PORT-03")
class StrangersAreBelieved(EndpointOperations):
    """An endpoint operation is taken for the peer's of the plane it comes in by, whoever sent it."""

    __slots__ = ()

    def receive(self, batch: ReceivedBatch, rows: I64, opcodes: U8, now: int) -> None:
        fields = batch.fields(COMMON)
        for row in rows.tolist():
            for nodes in self._nodes_at.values():
                source = nodes[0].sources.get(int(batch.port[row]), 0)
                fields["src_high"][row], fields["src_low"][row] = source >> 64, source & (1 << 64) - 1
        super().receive(batch, rows, opcodes, now)


@mutant("MRC-ERR-02")
class AnyResponseWillDo(EndpointOperations):
    """An endpoint response answers the oldest request that is out, whatever id it has."""

    __slots__ = ()

    def receive(self, batch: ReceivedBatch, rows: I64, opcodes: U8, now: int) -> None:
        if self._requests:
            batch.fields(COMMON)["psn_word"][rows] = next(iter(self._requests))
        super().receive(batch, rows, opcodes, now)
