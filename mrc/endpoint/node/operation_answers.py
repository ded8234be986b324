# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Answers to endpoint requests of peer nodes, in the control class (wire.md section 8)."""

from __future__ import annotations

from mrc.endpoint.counters import Counters
from mrc.endpoint.node import by_handle
from mrc.wire import octets
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, TSR_BIT, fields_at
from mrc.wire.transmit_batch import TransmitBatch

_LEAST, _MOST = 4, 1024
# Where in a packet (mrc.wire.fields.ENDPOINT_REQUEST, ENDPOINT_RESPONSE).
_OPCODE_AT, _PSN_AT = fields_at("bth", "opcode ackreq")
(_REQUEST_STAMP_AT,) = fields_at("erth", "tx_timestamp")
_EETH_AT, _RESPONSE_STAMP_AT = fields_at("eeth", "type tx_timestamp")
_RESPONSE, _EETH = int(Op.ENDPOINT_RESPONSE), HEADER_LENGTHS["eeth"]
_COLUMNS = 6
_NONE = -1


class OperationAnswers:
    """The answers that wait to be sent, `waiting` of them, in a ring."""

    def __init__(self, wire: WireProfile, counters: Counters) -> None:
        self._counters = counters
        self._op_shift = wire.eeth_op_shift
        self._traffic_class = wire.dscp_control << 2
        self._unit_1_ns = wire.tsr1_unit_ns
        # Of each: the node's handle, the request id, the operation, the request's timestamp (-1: it has none), the unit
        # of that in ns, when the request came.
        self._room = _LEAST
        self._cells = octets.words(_LEAST * _COLUMNS)
        self.waiting = self._first = 0

    def __dealloc__(self) -> None:
        octets.free_words(self._cells)

    def _at(self, number: int) -> int:
        """Where in the ring the answer lies that so many others come before."""
        return (self._first + number) % self._room * _COLUMNS

    def _grow(self) -> None:
        """Twice the room: those that lie before the first one come behind the others."""
        self._cells = octets.longer_words(self._cells, self._room * _COLUMNS, 2 * self._room * _COLUMNS)
        for number in range(self._first):
            self._move(number * _COLUMNS, (self._room + number) * _COLUMNS)
        self._room *= 2

    def add(self, handle: int, operation: int, batch: ReceivedBatch, row: int, now: int) -> None:
        """Answer this request of a node, unless too many answers wait already."""
        if self.waiting == _MOST:
            self._counters.endpoint_responses_dropped += 1
            return
        if self.waiting == self._room:
            self._grow()
        base, at = batch.row(row), self._at(self.waiting)
        word = octets.u16(batch.flat, base + _REQUEST_STAMP_AT + 2)
        self._cells[at] = handle
        self._cells[at + 1] = octets.u16(batch.flat, base + _PSN_AT + 2)
        self._cells[at + 2] = operation
        self._cells[at + 3] = (
            octets.u16(batch.flat, base + _REQUEST_STAMP_AT) if word & 0xF == TIMESTAMP_FTYPE else _NONE
        )
        self._cells[at + 4] = self._unit_1_ns if word & TSR_BIT else TIMESTAMP_UNIT_NS
        self._cells[at + 5] = now
        self.waiting += 1

    def forget(self, handle: int) -> None:
        """A node is gone: nothing for it waits any more."""
        count, self.waiting = self.waiting, 0
        for number in range(count):
            if self._cells[self._at(number)] != handle:
                self._move(self._at(number), self._at(self.waiting))
                self.waiting += 1

    def _move(self, source: int, at: int) -> None:
        for place in range(_COLUMNS):
            self._cells[at + place] = self._cells[source + place]

    def transmit(self, batch: TransmitBatch, now: int) -> None:
        """Append what waits, as far as there is room."""
        while self.waiting and batch.count < batch.capacity:
            self._send(batch, self._at(0), now)
            self._first = (self._first + 1) % self._room
            self.waiting -= 1

    def _send(self, batch: TransmitBatch, at: int, now: int) -> None:
        handle, stamp = self._cells[at], self._cells[at + 3]
        number = by_handle.control_ev(handle)
        if number == _NONE:
            self._counters.endpoint_responses_dropped += 1
            return
        base = by_handle.open_operation(handle, batch, number, self._traffic_class, _EETH)
        batch.flat[base + _OPCODE_AT] = _RESPONSE
        octets.put32(batch.flat, base + _PSN_AT, self._cells[at + 1])
        octets.put16(batch.flat, base + _EETH_AT, self._cells[at + 2] << self._op_shift)
        if stamp != _NONE:
            if by_handle.service_time(handle):
                stamp += (now - self._cells[at + 5]) // self._cells[at + 4]
            octets.put16(batch.flat, base + _RESPONSE_STAMP_AT, stamp)
