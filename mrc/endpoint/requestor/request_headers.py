# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The headers of requests, from the BTH on, written into the rows of a batch (wire.md sections 3 and 4).

Posted writes are cut into packets here. Nothing of a packet is kept: to be sent again it is written anew.
"""

from __future__ import annotations

from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.work import SOLICITED
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, python
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import (
    BTH_AT,
    EXTENSION_AT,
    HEADER_ROOM,
    PSN_BITS_MASK,
    REQUEST_LENGTH,
    REQUEST_TS_LENGTH,
    TIMESTAMP_FTYPE,
    TIMESTAMP_UNIT_NS,
    TS,
    fields_at,
    header_at,
    offsets_in,
)
from mrc.wire.transmit_batch import TransmitBatch

_ROOM, _BTH_AT, _PSN_BITS, _TS = HEADER_ROOM, BTH_AT, PSN_BITS_MASK, TS
_FTYPE, _UNIT_NS, _IMMDT = TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, HEADER_LENGTHS["immdt"]
# Where in a packet: dqp_word, psn_word, RQMSN and MSN, what follows them.
_DQP_AT, _PSN_AT = fields_at("bth", "reserved ackreq")
_METH_AT, _BEHIND_METH = header_at("meth"), header_at("reth")
_RKEY, _DMALEN = offsets_in("reth", "rkey dmalen")
_TSETH, _RETH = HEADER_LENGTHS["tseth"], HEADER_LENGTHS["reth"]
_STARTS, _ENDS, _IMMEDIATE = 1, 2, 4
_SOLICITED, _IMMEDIATE_BITS = SOLICITED, SOLICITED - 1
(_FLAGS_AT,) = fields_at("bth", "se")


def _opcodes() -> python[memoryview]:
    """[begins its message | ends it | with immediate] to the opcode; an immediate counts only where a message ends."""
    table = bytearray([Op.WRITE_MIDDLE] * 8)
    table[_STARTS] = table[_STARTS | _IMMEDIATE] = Op.WRITE_FIRST
    table[_ENDS], table[_ENDS | _IMMEDIATE] = Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE
    table[_STARTS | _ENDS], table[_STARTS | _ENDS | _IMMEDIATE] = Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE
    return memoryview(table)


_OPCODES: const_u8s = _opcodes()


class RequestHeaders:
    """Of one QP. A packet is named by the place of its message in `queue` and its position among its packets."""

    _queue: SendQueue
    _path_mtu: int
    _peer_qpn: int
    _ts: bool
    _se: int
    _least: int

    __slots__ = tuple(__annotations__)

    def __init__(self, queue: SendQueue, *, peer_qpn: int, path_mtu: int, timestamps: bool, se: int) -> None:
        """`se` is the bit of a solicited event in its byte."""
        self._queue = queue
        self._path_mtu = path_mtu
        self._peer_qpn = peer_qpn
        self._se = se
        self._ts = timestamps
        self._least = EXTENSION_AT + (REQUEST_TS_LENGTH if timestamps else REQUEST_LENGTH)

    def length(self, place: int, position: int) -> int:
        """Bytes of a packet before its payload."""
        carries = self._queue.immediate[place] >= 0 and position == self._queue.packets[place] - 1
        return self._least + _IMMDT if carries else self._least

    def write(self, batch: TransmitBatch, row: int, place: int, msn: int, position: int, psn: int, now: int) -> None:
        """Write those of a packet, but for what `batch` has filled in."""
        base, immediate = row * _ROOM, self._queue.immediate[place]
        kind = _ENDS if position == self._queue.packets[place] - 1 else 0
        if position == 0:
            kind |= _STARTS
        if immediate >= 0:
            kind |= _IMMEDIATE
        batch.flat[base + _BTH_AT] = _OPCODES[kind]
        octets.put32(batch.flat, base + _DQP_AT, self._peer_qpn)
        octets.put32(batch.flat, base + _PSN_AT, psn & _PSN_BITS | (_TS if self._ts else 0))
        octets.put32(batch.flat, base + _METH_AT, (self._queue.rqmsn[place] & 0xFFFF) << 16 | msn & 0xFFFF)
        at = base + _BEHIND_METH
        if self._ts:
            octets.put32(batch.flat, at, (now // _UNIT_NS & 0xFFFF) << 16 | _FTYPE)
            at += _TSETH
        octets.put64(batch.flat, at, self._queue.remote_va[place] + position * self._path_mtu)
        octets.put32(batch.flat, at + _RKEY, self._queue.rkey[place])
        octets.put32(batch.flat, at + _DMALEN, self._queue.length[place])
        if immediate >= 0 and kind & _ENDS:
            octets.put32(batch.flat, at + _RETH, immediate & _IMMEDIATE_BITS)
            if immediate & _SOLICITED:
                batch.flat[base + _FLAGS_AT] |= self._se
