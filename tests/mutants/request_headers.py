# SPDX-License-Identifier: BSD-2-Clause
"""Requests whose headers are wrong: METH, TSETH, RETH, and how a write is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.work import WriteRequest
from mrc.wire.fields import COMMON, REQUEST, REQUEST_TS, Fields
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import BTH_AT, EXTENSION_AT, PSN_BITS_MASK, RTX
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked
from mutants.responders import _EachRequest

_ENDS = (Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE, Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE)


def _has_timestamps(fields: Fields) -> bool:
    return "tx_timestamp" in (fields.dtype.names or ())


class _Reheaded(_Repacked):
    """An endpoint whose requests are changed before their ICRC is made: `rehead` gets the headers of those of one turn
    and the path MTU."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        chosen = np.isin(batch.fields(COMMON, start, batch.count)["opcode"], list(REQUEST_OPCODES))
        for qp in self.qps.values():
            layout = REQUEST_TS if qp.config.timestamps else REQUEST
            fields = batch.fields(layout, start, batch.count)
            changed = fields[chosen]
            self.rehead(changed, qp.config.path_mtu)
            fields[chosen] = changed
            break

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        raise NotImplementedError

    @staticmethod
    def again(fields: Fields) -> npt.NDArray[np.bool_]:
        return np.asarray(fields["psn_word"] & RTX != 0)


@mutant("MRC-REQ-01")
class MsnBeforeRqmsn(_Reheaded):
    """The METH has the MSN first and the RQMSN behind it."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["rqmsn"], fields["msn"] = fields["msn"].copy(), fields["rqmsn"].copy()


@mutant("MRC-REQ-02")
class MsnCountsPacketsSent(_Reheaded):
    """The MSN of a request numbers packets instead of messages."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        (qp, *_) = self.qps.values()
        fields["msn"] = (fields["psn_word"] - qp.first_psn & PSN_BITS_MASK) & 0xFFFF


@mutant("MRC-REQ-02")
class NoMsnInRetransmissions(_Reheaded):
    """The MSN of a retransmission is 0."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["msn"][self.again(fields)] = 0


@mutant("MRC-REQ-03")
class RqmsnInTheLastPacketOnly(_Reheaded):
    """The RQMSN stands in the packet that has the immediate and is 0 in the others of its message."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["rqmsn"][~np.isin(fields["opcode"], _ENDS)] = 0


@mutant("MRC-REQ-03", "MRC-REQ-04")
class RqmsnIsTheMsn(_Reheaded):
    """The RQMSN is the MSN: every message counts, with immediate or not."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["rqmsn"] = fields["msn"]


@mutant("MRC-REQ-04")
class PlainWritesRepeatTheRqmsn(Requestor):
    """A plain write has the RQMSN of the last write with immediate instead of 0."""

    def post(self, request: WriteRequest) -> None:
        super().post(request)
        if request.immediate is None and self.queue.next_rqmsn:
            self.queue.rqmsn[self.queue.place(self.queue.next_msn - 1)] = self.queue.next_rqmsn - 1


@mutant("MRC-REQ-05")
class NoFtype(_Reheaded):
    """ftype is 0 in a TSETH."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["tseth_word"] &= ~np.uint16(0xF)


@mutant("MRC-REQ-06")
class TimestampsCount256Ns(_Reheaded):
    """Timestamps with tsr 0 count units of 256 ns."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        if _has_timestamps(fields):
            fields["tx_timestamp"] >>= 1


@mutant("MRC-REQ-06")
class TimestampsStandStill(_Reheaded):
    """8.4 ms after the first request timestamps stay what they are."""

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        self._turn = now
        return super().transmit(batch, now)

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        if not _has_timestamps(fields):
            return
        if not hasattr(self, "_first"):
            self._first = self._turn
        fields["tx_timestamp"] = min(self._turn, self._first + 0xFFFF * 128) // 128 & 0xFFFF


@mutant("MRC-REQ-08")
class RkeyBehindDmalen(_Reheaded):
    """The RETH has DMALen before the R_Key."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        fields["rkey"], fields["dmalen"] = fields["dmalen"].copy(), fields["rkey"].copy()


@mutant("MRC-REQ-09")
class VaOfTheMessageInEachPacket(_Reheaded):
    """Every packet of a message has the VA of its first, as in RoCEv2 where only the first has one."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        (qp, *_) = self.qps.values()
        queue = qp.requestor.queue
        for msn in queue.unfinished():
            fields["va"][fields["msn"] == msn] = queue.remote_va[queue.place(msn)]


@mutant("MRC-REQ-09")
class VaOfRetransmissionsIsTheMessages(_Reheaded):
    """A retransmission has the VA of the first packet of its message."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        (qp, *_) = self.qps.values()
        queue = qp.requestor.queue
        for msn in queue.unfinished():
            fields["va"][self.again(fields) & (fields["msn"] == msn)] = queue.remote_va[queue.place(msn)]


@mutant("MRC-REQ-10")
class DmalenIsWhatIsLeft(_Reheaded):
    """DMALen is the length of what is left of the message, this packet included."""

    def rehead(self, fields: Fields, path_mtu: int) -> None:
        (qp, *_) = self.qps.values()
        queue = qp.requestor.queue
        for msn in queue.unfinished():
            mine, place = fields["msn"] == msn, queue.place(msn)
            gone = fields["va"][mine].astype(np.int64) - queue.remote_va[place]
            fields["dmalen"][mine] = queue.length[place] - gone


@mutant("MRC-REQ-11")
class PlacedBehindTheOneBefore(_EachRequest):
    """A Middle or Last is taken only when the packet before it has come."""

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        psn, opcode = self._psn(batch, packet), int(batch.fields(COMMON)["opcode"][packet.row])
        starts = opcode in (Op.WRITE_FIRST, Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE)
        if starts or psn <= self.received.epsn or self.received.has(psn - 1):
            super().on_request(batch, packet, now)


@mutant("MRC-REQ-07")
def tsr1_counts1024_ns(endpoint: Endpoint, qp: QueuePair) -> None:
    """The unit of a timestamp with tsr 1 is taken for 1024 ns."""
    reflector: Any = qp.responder._reflector
    reflector._unit_1_ns = reflector._unit_1_ns and 1024


@mutant("MRC-REQ-12")
class ImmdtBeforeTheReth(_Repacked):
    """ImmDt stands before the RETH."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        (qp, *_) = self.qps.values()
        reth = EXTENSION_AT + (8 if qp.config.timestamps else 4)
        for row in range(start, batch.count):
            if batch.headers[row, BTH_AT] in (Op.WRITE_ONLY_WITH_IMMEDIATE, Op.WRITE_LAST_WITH_IMMEDIATE):
                batch.headers[row, reth : reth + 20] = np.roll(batch.headers[row, reth : reth + 20], 4)


@mutant("MRC-REQ-13", "MRC-REQ-14")
def no_path_mtu_above512(endpoint: Endpoint, qp: QueuePair) -> None:
    """Writes are cut by 512 bytes at most, whatever path MTU was agreed on."""
    requestor: Any = qp.requestor
    path_mtu = min(qp.config.path_mtu, 512)
    for part in (requestor.queue, requestor._requests, requestor._requests._headers):
        part._path_mtu = path_mtu


@mutant("MRC-REQ-15")
class WholePathMtusEndInAnEmptyLast(Requestor):
    """A write of whole path MTUs ends in a Last without payload."""

    def post(self, request: WriteRequest) -> None:
        super().post(request)
        if request.length and request.length % self.queue._path_mtu == 0:
            self.queue.packets[self.queue.place(self.queue.next_msn - 1)] += 1


@mutant("MRC-REQ-08")
class TheRethIsInTheFirstOnly(_Repacked):
    """A Middle and a Last have no RETH, as in RoCEv2."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        for row, opcode in enumerate(fields["opcode"].tolist(), start):
            if opcode not in (Op.WRITE_MIDDLE, Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE):
                continue
            end = int(batch.header_length[row])
            reth = end - 16 - (4 if opcode == Op.WRITE_LAST_WITH_IMMEDIATE else 0)
            behind = batch.headers[row, reth + 16 : end].copy()
            batch.headers[row, reth : end - 16] = behind
            batch.header_length[row] -= 16
            fields["ip_plen"][row - start] -= 16
            fields["udp_len"][row - start] -= 16
