"""What it takes to send a PSN, and to send it again: its headers ready to copy, and where its payload lies.

A ring by PSN, beside the one of `sent.py`. Posted writes are cut into packets here (wire.md section 4).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mrc.endpoint.sent import Slots
from mrc.endpoint.work import Message
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import (
    BTH_AT,
    EXTENSION_AT,
    HEADER_ROOM,
    P_KEY,
    PAD_SHIFT,
    PSN_BITS_MASK,
    REQUEST,
    REQUEST_LENGTH,
    REQUEST_TS,
    REQUEST_TS_LENGTH,
    TIMESTAMP_FTYPE,
    TS,
)

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

# A message, the position of the first of its packets that is meant, and how many are.
Piece = tuple[Message, int, int]

LONGEST_REQUEST = EXTENSION_AT + REQUEST_TS_LENGTH + HEADER_LENGTHS["immdt"]
_IMAGE = LONGEST_REQUEST - BTH_AT
_BTH_METH, _RETH, _IMMDT = struct.Struct(">BBHIIHH"), struct.Struct(">QII"), struct.Struct(">I")
_TSETH = struct.pack(">HH", 0, TIMESTAMP_FTYPE)
# A whole request in one: BTH, METH, TSETH where there is one (4 bytes that `_TSETH` has), RETH, IMMDT.
_WHOLE, _WHOLE_TS = struct.Struct(">BBHIIHHQIII"), struct.Struct(">BBHIIHH4sQIII")
# Of one packet: header_length, length, address, message, offset.
_RECORD = struct.Struct("=5q")
_STARTS, _ENDS, _IMMEDIATE = 1, 2, 4


def _opcodes() -> U8:
    """[begins its message | ends it | with immediate] to the opcode; an immediate counts only where a message ends."""
    table = np.full(8, Op.WRITE_MIDDLE, np.uint8)
    table[_STARTS] = table[_STARTS | _IMMEDIATE] = Op.WRITE_FIRST
    table[_ENDS], table[_ENDS | _IMMEDIATE] = Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE
    table[_STARTS | _ENDS], table[_STARTS | _ENDS | _IMMEDIATE] = Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE
    return table


_OPCODES = _opcodes()


class RequestHeaders:
    """By slot: `image`, the headers from the BTH on as they go out the first time, but for the timestamp;
    `header_length`, bytes of the packet before its payload; `address` and `length` of the payload; `message`, the
    number of its message, and `offset`, where in that message's region the payload begins."""

    __slots__ = (
        "_flat",
        "_layout",
        "_path_mtu",
        "_peer_qpn",
        "_ts",
        "address",
        "header_length",
        "image",
        "length",
        "message",
        "offset",
    )

    def __init__(self, slots: int, *, peer_qpn: int, path_mtu: int, timestamps: bool) -> None:
        self._peer_qpn = peer_qpn
        self._path_mtu = path_mtu
        self._ts = timestamps
        self._layout = REQUEST_TS if timestamps else REQUEST
        self.image: U8 = np.zeros((slots, _IMAGE), np.uint8)
        self._flat = self.image.reshape(-1).data
        self.header_length: I64 = np.zeros(slots, np.int64)
        self.address: npt.NDArray[np.uint64] = np.zeros(slots, np.uint64)
        self.length: I64 = np.zeros(slots, np.int64)
        self.message: I64 = np.zeros(slots, np.int64)
        self.offset: I64 = np.zeros(slots, np.int64)

    def cut_one(self, message: Message, position: int, psn: int, slot: int) -> None:
        """`cut` for one packet, in plain numbers."""
        request = message.request
        moved = position * self._path_mtu
        length = min(request.length - moved, self._path_mtu)
        ends = position == message.packets - 1
        immediate = request.immediate if ends else None
        kind = (0 if position else _STARTS) | (_ENDS if ends else 0) | (0 if immediate is None else _IMMEDIATE)
        image = _BTH_METH.pack(
            _OPCODES[kind],
            (-length & 3) << PAD_SHIFT,
            P_KEY,
            self._peer_qpn,
            psn & PSN_BITS_MASK | (TS if self._ts else 0),
            message.rqmsn & 0xFFFF,
            message.msn & 0xFFFF,
        )
        if self._ts:
            image += _TSETH
        image += _RETH.pack(moved + request.remote_va, request.rkey, request.length)
        if immediate is not None:
            image += _IMMDT.pack(immediate)
        self._flat[slot * _IMAGE : slot * _IMAGE + len(image)] = image
        self.header_length[slot] = BTH_AT + len(image)
        self.length[slot] = length
        self.address[slot] = request.source.address + request.offset + moved
        self.message[slot] = message.msn
        self.offset[slot] = request.offset + moved

    def image_of(self, slot: int, header_length: int) -> memoryview:
        """The image of one packet whose headers have this length in all."""
        return self._flat[slot * _IMAGE : slot * _IMAGE + header_length - BTH_AT]

    def cut(self, pieces: Sequence[Piece], psns: I64, slots: Slots) -> None:
        """Write down the packets of `pieces`, one after the other, under these PSNs in these slots."""
        # Only the first of several messages may have begun before, and only the last go on afterwards.
        if len(pieces) == len(psns) and pieces[0][0].packets == 1 and pieces[-1][0].packets == 1:
            self._cut_small(pieces, int(psns[0]), slots)
            return
        mtu = self._path_mtu
        rows = [
            (
                message.msn,
                message.rqmsn,
                message.packets,
                (request := message.request).length,
                request.offset,
                request.offset + request.source.address,
                request.remote_va,
                request.rkey,
                -1 if request.immediate is None else request.immediate,
            )
            for message, _, _ in pieces
        ]
        each = np.array(rows, np.int64)
        if len(pieces) == 1:
            position = np.arange(pieces[0][1], pieces[0][1] + len(psns), dtype=np.int64)
        else:
            counts = np.array([count for _, _, count in pieces], np.int64)
            position = np.arange(len(psns)) - np.repeat(np.cumsum(counts) - counts, counts)
            position += np.repeat(np.array([first for _, first, _ in pieces], np.int64), counts)
            each = np.repeat(each, counts, axis=0)
        msn, rqmsn, packets, dmalen, offset, address, va, rkey, immediate = each.T
        moved = position * mtu
        length = np.minimum(dmalen - moved, mtu)
        with_immediate = immediate >= 0
        ends = position == packets - 1
        kind = (position == 0) * np.uint8(_STARTS) + ends * np.uint8(_ENDS) + with_immediate * np.uint8(_IMMEDIATE)
        headers = np.zeros((len(psns), HEADER_ROOM), np.uint8)
        fields = np.ndarray((len(psns),), self._layout, headers)
        fields["opcode"] = _OPCODES[kind]
        fields["flags"] = (-length & 3) << PAD_SHIFT
        fields["pkey"] = P_KEY
        fields["dqp_word"] = self._peer_qpn
        fields["psn_word"] = psns & PSN_BITS_MASK | (TS if self._ts else 0)
        fields["rqmsn"] = rqmsn & 0xFFFF
        fields["msn"] = msn & 0xFFFF
        fields["va"] = moved + va
        fields["rkey"] = rkey
        fields["dmalen"] = dmalen
        before_payload = EXTENSION_AT + (REQUEST_TS_LENGTH if self._ts else REQUEST_LENGTH)
        if self._ts:
            fields["tseth_word"] = TIMESTAMP_FTYPE
        if with_immediate.any():
            carries = with_immediate & ends
            fields["immediate"] = np.where(carries, immediate, 0)
            self.header_length[slots] = before_payload + carries * HEADER_LENGTHS["immdt"]
        else:
            self.header_length[slots] = before_payload
        self.image[slots] = headers[:, BTH_AT:LONGEST_REQUEST]
        self.length[slots] = length
        self.address[slots] = (moved + address).view(np.uint64)
        self.message[slots] = msn
        self.offset[slots] = moved + offset

    def _cut_small(self, pieces: Sequence[Piece], psn: int, slots: Slots) -> None:
        """`cut` for messages of one packet each, from this PSN on: one by one, for a third of what columns take."""
        flags, peer_qpn, between = TS if self._ts else 0, self._peer_qpn, (_TSETH,) if self._ts else ()
        pack, record = (_WHOLE_TS if self._ts else _WHOLE).pack, _RECORD.pack
        before_payload = EXTENSION_AT + (REQUEST_TS_LENGTH if self._ts else REQUEST_LENGTH)
        plain, with_immediate = int(_OPCODES[_STARTS | _ENDS]), int(_OPCODES[_STARTS | _ENDS | _IMMEDIATE])
        images: list[bytes] = []
        records: list[bytes] = []
        for message, _, _ in pieces:
            request = message.request
            length, offset, immediate, msn = request.length, request.offset, request.immediate, message.msn
            images.append(
                pack(
                    plain if immediate is None else with_immediate,
                    (-length & 3) << PAD_SHIFT,
                    P_KEY,
                    peer_qpn,
                    psn & PSN_BITS_MASK | flags,
                    message.rqmsn & 0xFFFF,
                    msn & 0xFFFF,
                    *between,
                    request.remote_va,
                    request.rkey,
                    length,
                    immediate or 0,
                )
            )
            header_length = before_payload if immediate is None else before_payload + HEADER_LENGTHS["immdt"]
            records.append(record(header_length, length, request.source.address + offset, msn, offset))
            psn += 1
        image = np.frombuffer(b"".join(images), np.uint8).reshape(len(images), -1)
        self.image[slots, : image.shape[1]] = image
        columns = np.frombuffer(b"".join(records), np.int64).reshape(-1, 5)
        self.header_length[slots] = columns[:, 0]
        self.length[slots] = columns[:, 1]
        self.address[slots] = columns[:, 2].view(np.uint64)
        self.message[slots] = columns[:, 3]
        self.offset[slots] = columns[:, 4]
