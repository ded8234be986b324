"""How packets of one QP are framed: one path, and headers written in plain numbers."""

from __future__ import annotations

import struct

from mrc.endpoint.paths.addressing import Path
from mrc.rc.opcodes import RcOp
from mrc.wire.frames import Frames
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS
from mrc.wire.rows import BTH_AT, P_KEY
from mrc.wire.transmit_batch import TransmitBatch

_TARGET_AT = BTH_AT + 4  # behind opcode, flags and P_Key
_TARGET = struct.Struct(">II")  # dqp_word, psn_word
_ACKNOWLEDGE = struct.Struct(">BBHIII")  # BTH and AETH


class Framing:
    """Puts packets towards one peer into a batch."""

    __slots__ = ("_frames", "_peer_qpn", "_traffic_class")

    def __init__(self, path: Path, peer_qpn: int, traffic_class: int) -> None:
        self._frames = Frames()
        self._frames.add(path.template, path.port, path.destination)
        self._peer_qpn = peer_qpn
        self._traffic_class = traffic_class

    def request(
        self,
        batch: TransmitBatch,
        opcode: RcOp,
        psn_word: int,
        extension: bytes,
        address: int,
        length: int,
    ) -> None:
        """One packet of a message: `extension` are its headers behind the BTH, what follows the `length` bytes at
        `address`, which the caller keeps alive."""
        header_length = BTH_AT + BTH_LENGTH + len(extension)
        row = batch.append(self._frames, 0, self._traffic_class, header_length, address, length)
        batch.write_headers(row, BTH_AT, bytes((opcode,)))
        batch.write_headers(row, _TARGET_AT, _TARGET.pack(self._peer_qpn, psn_word) + extension)

    def acknowledge(self, batch: TransmitBatch, psn: int, syndrome: int, msn: int) -> None:
        """An ACK or NAK for `psn`, all in 24 bits but the syndrome of 8."""
        headers = _ACKNOWLEDGE.pack(RcOp.ACKNOWLEDGE, 0, P_KEY, self._peer_qpn, psn, syndrome << 24 | msn)
        row = batch.open_row(self._frames, 0, self._traffic_class, BTH_AT + BTH_LENGTH + HEADER_LENGTHS["aeth"])
        batch.write_headers(row, BTH_AT, headers)
