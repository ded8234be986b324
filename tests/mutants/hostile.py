# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that break down under what they are sent, count nothing of it, or believe it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.receive import DROPPED, SOUND, Intake, PacketChecks
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operation_intake import OperationIntake
from mrc.endpoint.node.operations import EndpointOperations
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.feedback import BY_HOLE, Feedback
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.responder.answers import SackMaker
from mrc.endpoint.responder.request_checks import Answer
from mrc.wire.fields import COMMON, NACK, Fields
from mrc.wire.names import NackReason
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import PAD_SHIFT, PSN_BITS_MASK
from mutants.arrivals import _Refound
from mutants.bursts import part_of
from mutants.mutant import mutant
from mutants.requestors import _Syndromes
from mutants.responders import _EachRequest, request_fields

_BTH_END = 60
_MALFORMED = (
    "too_short",
    "bad_length",
    "not_ipv6_udp",
    "bad_udp_port",
    "bad_tver",
    "unknown_opcode",
    "bad_icrc",
    "bad_pkey",
)


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
        checks = PacketChecks(self.config.wire, Counters())
        bad = [row for row in range(batch.count) if checks.look(batch, row) == DROPPED]
        # These are counted all the same.
        super().receive(part_of(batch, bad) if bad else batch, now)


class _Requests(_EachRequest):
    """Looks at the fields of each request of its QP before it is checked."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        self.look_at(request_fields(batch, packet.row)[0])
        super().on_request(batch, packet, now)

    def look_at(self, fields: Any) -> None:
        raise NotImplementedError


@mutant("MRC-ERR-01")
class LengthsAreSigned(_Requests):
    """A DMALen of 2^31 or more does not fit the number it is put into."""

    def look_at(self, fields: Any) -> None:
        int(fields["dmalen"]).to_bytes(4, "big", signed=True)


@mutant("MRC-ERR-01")
class AddressesAreSigned(_Requests):
    """A VA of 2^63 or more does not fit the number it is put into."""

    def look_at(self, fields: Any) -> None:
        int(fields["va"]).to_bytes(8, "big", signed=True)


@mutant("MRC-ERR-01")
class EveryReasonHasAName(Feedback):
    """A NACK with a reason that is not in the table raises."""

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        NackReason(int(batch.fields(NACK)["reason"][row]))
        super().on_nack(batch, row, now)


@mutant("MRC-ERR-01")
class AHundredAnswersAreTheMost(SackMaker):
    """More than 100 answers that are due at once raise."""

    def on_probe(self, probe: Answer) -> None:
        if self.pending.count >= 100:
            raise OverflowError("too many answers are due")
        super().on_probe(probe)


@mutant("MRC-ERR-02")
def what_is_malformed_is_not_counted(endpoint: Endpoint, qp: QueuePair) -> None:
    """Packets that are malformed are dropped and not counted."""
    checks: Any = endpoint.datapath.intake._checks
    checks._counters = Counters()


@mutant("MRC-ERR-02")
class ABurstIsCountedOnce(Intake):
    """Of several malformed packets that come at once one is counted."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        before = {name: getattr(self._counters, name) for name in _MALFORMED}
        super().receive(batch, now)
        for name, count in before.items():
            setattr(self._counters, name, min(getattr(self._counters, name), count + 1))


@mutant("MRC-ERR-02")
class ControlPacketsMayHaveATail(PacketChecks):
    """What follows the header of an ACK is not minded."""

    def _fits(self, opcode: int, spare: int) -> bool:
        return super()._fits(opcode, spare) or (opcode == Op.ACKNOWLEDGE and spare > 0)


@mutant("MRC-ERR-02")
class PaddingIsNotMinded(_Refound):
    """The pad count of an ACK is not minded."""

    def refind(self, fields: Fields) -> bool | None:
        if fields["opcode"][0] != Op.ACKNOWLEDGE or not fields["flags"][0] >> PAD_SHIFT & 3:
            return None
        fields["flags"] &= np.uint8(~(3 << PAD_SHIFT) & 0xFF)
        return True


@mutant("MRC-ERR-02")
class UdpLengthsAreNotMinded(PacketChecks):
    """The UDP length of an RDMA WRITE Only is not looked at."""

    def look(self, batch: ReceivedBatch, row: int) -> int:
        fields, length = batch.fields(COMMON)[row], batch.lengths[row]
        right = int(fields["ip_plen"]) == length - 40 and int(fields["udp_dport"]) == 4791
        if right and int(fields["opcode"]) == Op.WRITE_ONLY and length > 100 and int(fields["flags"]) & 15 == 0:
            self.packet.read(batch, row)
            return SOUND if batch.icrc_right(row) else super().look(batch, row)
        return super().look(batch, row)


@mutant("MRC-ERR-02")
class AnyNakIsBelieved(Feedback):
    """A NAK ends the QP whatever PSN it names."""

    def on_nak(self, psn: int, syndrome: int, now: int) -> None:
        self._refused(self._sent.una, syndrome)


@mutant("MRC-ERR-02")
class AnyUnexpectedEventIsBelieved(NackHandler):
    """UNEXP_EVENT ends the QP whatever PSN it names."""

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        if batch.fields(NACK)["reason"][row] == NackReason.UNEXP_EVENT:
            self._fail(WorkStatus.REMOTE_OPERATION_ERROR, "the peer cannot go on", self._sent.una)
            return
        super().on_nack(batch, row, now)


@mutant("MRC-ERR-02")
class UnknownSyndromesAcknowledge(_Syndromes):
    """An AETH whose syndrome is not in the table is taken for an ACK."""

    def read(self, syndrome: int) -> int | None:
        return syndrome if syndrome in (0x61, 0x62, 0x63) else 0x1F


@mutant("MRC-SEND-09")
class BitsBeyondAreOverlooked(Feedback):
    """Of a SACK that reports PSNs never sent what is left is taken."""

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        unsent = self._counters.ack_for_unsent_psn
        super().on_sack(batch, row, now)
        self._counters.ack_for_unsent_psn = unsent


@mutant("MRC-ERR-02")
class OldRequestsAreWrittenAgain(_EachRequest):
    """A request that has been taken before is written once more when it comes again."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        fields = request_fields(batch, packet.row)[0]
        behind = self.received.epsn - int(fields["psn_word"]) & PSN_BITS_MASK
        if 0 < behind < 1 << 10 and fields["opcode"] == Op.WRITE_ONLY:
            self._write(batch, packet)
        super().on_request(batch, packet, now)


@mutant("MRC-ERR-02")
class OldAnswersLose(Feedback):
    """A SACK that brings no news has the oldest packet that is out sent again."""

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        sent = self._sent
        una = sent.una
        super().on_sack(batch, row, now)
        if sent.una == una < sent.next_psn and sent.outstanding:
            sent.skip_settled()
            self._lose(sent.head, BY_HOLE)
            self._after_losses(now)


@mutant("MRC-PORT-03")
class StrangersAreBelieved(OperationIntake):
    """An endpoint operation is taken for the peer's of the plane it comes in by, whichever node sent it."""

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> bool:
        fields = batch.fields(COMMON)
        for node in filter(None, self._peers._nodes):
            source = node.sources.get(batch.ports[row], 0)
            fields["src_high"][row], fields["src_low"][row] = source >> 64, source & (1 << 64) - 1
        return super().receive(batch, row, opcode, now)


@mutant("MRC-ERR-02")
class AnyResponseWillDo(EndpointOperations):
    """An endpoint response answers the oldest request that is out, whatever id it has."""

    __slots__ = ()

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> None:
        if self._requests:
            batch.fields(COMMON)["psn_word"][row] = next(iter(self._requests))
        super().receive(batch, row, opcode, now)
