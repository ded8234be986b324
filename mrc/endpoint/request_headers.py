"""The headers of requests, from the BTH on, written into the rows of a batch (wire.md sections 3 and 4).

Posted writes are cut into packets here. Nothing of a packet is kept: to be sent again it is written anew.
"""

from __future__ import annotations

from mrc.endpoint.message import Message
from mrc.wire import octets
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
)
from mrc.wire.transmit_batch import TransmitBatch

_ROOM, _BTH_AT, _PSN_BITS, _TS = HEADER_ROOM, BTH_AT, PSN_BITS_MASK, TS
_FTYPE, _UNIT_NS, _IMMDT = TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, HEADER_LENGTHS["immdt"]
# Where in a packet: dqp_word, psn_word, RQMSN and MSN, what follows them.
_DQP_AT, _PSN_AT, _METH_AT, _BEHIND_METH = 52, 56, 60, 64
_STARTS, _ENDS, _IMMEDIATE = 1, 2, 4


def _opcodes() -> memoryview:
    """[begins its message | ends it | with immediate] to the opcode; an immediate counts only where a message ends."""
    table = bytearray([Op.WRITE_MIDDLE] * 8)
    table[_STARTS] = table[_STARTS | _IMMEDIATE] = Op.WRITE_FIRST
    table[_ENDS], table[_ENDS | _IMMEDIATE] = Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE
    table[_STARTS | _ENDS], table[_STARTS | _ENDS | _IMMEDIATE] = Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE
    return memoryview(table)


_OPCODES = _opcodes()


class RequestHeaders:
    """Of one QP. A packet is named by its message and its position among the packets of that."""

    __slots__ = ("_least", "_peer_qpn", "_ts")

    def __init__(self, *, peer_qpn: int, timestamps: bool) -> None:
        self._peer_qpn = peer_qpn
        self._ts = timestamps
        self._least = EXTENSION_AT + (REQUEST_TS_LENGTH if timestamps else REQUEST_LENGTH)

    def length(self, message: Message, position: int) -> int:
        """Bytes of a packet before its payload."""
        carries = message.immediate >= 0 and position == message.packets - 1
        return self._least + _IMMDT if carries else self._least

    def write(self, batch: TransmitBatch, row: int, message: Message, position: int, psn: int, now: int) -> None:
        """Write those of a packet, but for what `batch` has filled in."""
        base = row * _ROOM
        kind = _ENDS if position == message.packets - 1 else 0
        if position == 0:
            kind |= _STARTS
        if message.immediate >= 0:
            kind |= _IMMEDIATE
        batch.flat[base + _BTH_AT] = _OPCODES[kind]
        octets.put32(batch.flat, base + _DQP_AT, self._peer_qpn)
        octets.put32(batch.flat, base + _PSN_AT, psn & _PSN_BITS | (_TS if self._ts else 0))
        octets.put32(batch.flat, base + _METH_AT, (message.rqmsn & 0xFFFF) << 16 | message.msn & 0xFFFF)
        at = base + _BEHIND_METH
        if self._ts:
            octets.put32(batch.flat, at, (now // _UNIT_NS & 0xFFFF) << 16 | _FTYPE)
            at += 4
        octets.put64(batch.flat, at, message.remote_va + position * message.path_mtu)
        octets.put32(batch.flat, at + 8, message.rkey)
        octets.put32(batch.flat, at + 12, message.length)
        if message.immediate >= 0 and kind & _ENDS:
            octets.put32(batch.flat, at + 16, message.immediate)
