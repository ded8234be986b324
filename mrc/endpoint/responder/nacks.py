# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Where NACKs are made (wire.md section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.responder.answers import Answer, ControlPackets, PendingAnswers, dcids
from mrc.wire import octets
from mrc.wire.compiled import with_gil
from mrc.wire.names import NackReason
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import PSN_BITS_MASK, RTX, fields_at
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.counters import Counters
    from mrc.endpoint.paths.path_set import PathSet
    from mrc.endpoint.tracing import QpTrace

_NACK, _BYTES = int(Op.NACK), HEADER_LENGTHS["neth"]
_PSN_MASK, _RTX = PSN_BITS_MASK, RTX
# Where in a NACK: the fields of mrc.wire.fields.NACK; reason and vendor_info are one word, and so are the two bytes
# from cc_type on.
_NETH_AT, _REASON_AT, _ENTROPY_AT, _SPDCID_AT, _DPDCID_AT = fields_at("neth", "type reason entropy spdcid dpdcid")
_NACK_WORD_AT, _CC_TYPE_AT, _STAMP_AT = fields_at("neth", "reserved2 cc_type tx_timestamp")
_CC_TYPE_SHIFT = 4
_NO_PORT = -1


class NackMaker:
    """Turns refusals into NACKs."""

    _spdcid: int
    _dpdcid: int
    _cc_type: int
    _last_port: int
    _planes: int
    _trace: QpTrace | None
    _answer: Answer
    _counters: Counters
    _packets: ControlPackets
    _paths: PathSet
    pending: PendingAnswers

    __slots__ = tuple(__annotations__)

    def __init__(self, qp: QpParts, packets: ControlPackets) -> None:
        self._trace = qp.trace
        self._spdcid, self._dpdcid = dcids(qp)
        self._cc_type = qp.wire.neth_cc_type << _CC_TYPE_SHIFT
        self._paths = qp.paths
        self._counters = qp.counters
        self._packets = packets
        self._planes = len(set(memoryview(qp.paths.table.port)))
        self._last_port = _NO_PORT
        self.pending = PendingAnswers()
        # The one that is being sent.
        self._answer = Answer()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> None:
        """Append up to `limit` NACKs.

        Successive NACKs alternate planes, and whole turns are drawn so that SACKs still do with NACKs in between.
        """
        count = limit if limit < self.pending.count else self.pending.count
        if count <= 0:
            return
        drawn = count
        index = self._paths.control.take_one(now)
        if self._paths.frames.ports[index] == self._last_port:
            index = self._paths.control.take_one(now)
            drawn += 1
        for number in range(count):
            if number:
                index = self._paths.control.take_one(now)
            self.pending.pop(self._answer)
            self._append(batch, index, now)
        self._last_port = self._paths.frames.ports[index]
        while drawn % self._planes:
            self._paths.control.take_one(now)
            drawn += 1
        self._counters.nacks_sent += count

    def _append(self, batch: TransmitBatch, index: int, now: int) -> None:
        """Append the NACK for the answer that was taken."""
        psn = self._answer.psn & _PSN_MASK
        at = self._packets.open(batch, index, _NACK, psn | _RTX if self._answer.rtx else psn, _BYTES)
        octets.put16(batch.flat, at + _NETH_AT, 0)
        octets.put16(batch.flat, at + _REASON_AT, self._answer.reason << 8)
        octets.put32(batch.flat, at + _ENTROPY_AT, self._answer.entropy)
        octets.put16(batch.flat, at + _SPDCID_AT, self._spdcid)
        octets.put16(batch.flat, at + _DPDCID_AT, self._dpdcid)
        octets.put32(batch.flat, at + _NACK_WORD_AT, psn)
        octets.put16(batch.flat, at + _CC_TYPE_AT, self._cc_type << 8)
        octets.put16(batch.flat, at + _STAMP_AT, self._answer.timestamp(now))
        if self._trace is not None:
            self._trace_sent()

    def _trace_sent(self) -> with_gil[None]:
        answer: Answer = self._answer
        if self._trace is not None:
            psn = answer.psn & PSN_BITS_MASK
            self._trace.nack_sent(psn, NackReason(answer.reason).name, answer.entropy, answer.rtx)
