# SPDX-License-Identifier: BSD-2-Clause
"""How packets of one QP are written: all go one path."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.endpoint.paths.addressing import Path
from mrc.rc.opcodes import RcOp
from mrc.wire.frames import Frames
from mrc.wire.headers import pack_header
from mrc.wire.packet import Layer
from mrc.wire.rows import BTH_AT, P_KEY
from mrc.wire.transmit_batch import TransmitBatch


class Framing:
    """Puts packets towards one peer into a batch."""

    __slots__ = ("_frames", "_peer_qpn", "_traffic_class")

    def __init__(self, path: Path, peer_qpn: int, traffic_class: int) -> None:
        self._frames = Frames()
        self._frames.add(path.template, path.port, path.destination)
        self._peer_qpn = peer_qpn
        self._traffic_class = traffic_class

    def request(self, batch: TransmitBatch, layers: Sequence[Layer], address: int, length: int) -> None:
        """One packet of a message: its BTH, without what all packets of the QP have alike, and the headers behind it.
        What follows are the `length` bytes at `address`, which the caller keeps alive."""
        (name, bth), *others = layers
        headers = self._written([(name, {**bth, "pad": -length % 4}), *others])
        row = batch.append(self._frames, 0, self._traffic_class, BTH_AT + len(headers), address, length)
        batch.write_headers(row, BTH_AT, headers)

    def acknowledge(self, batch: TransmitBatch, psn: int, syndrome: int, msn: int) -> None:
        """An ACK or NAK for `psn`, all in 24 bits but the syndrome of 8."""
        bth = {"opcode": int(RcOp.ACKNOWLEDGE), "psn": psn}
        headers = self._written([("bth", bth), ("aeth", {"syndrome": syndrome, "msn": msn})])
        row = batch.open_row(self._frames, 0, self._traffic_class, BTH_AT + len(headers))
        batch.write_headers(row, BTH_AT, headers)

    def _written(self, layers: Sequence[Layer]) -> bytes:
        (name, bth), *others = layers
        bth = {"pkey": P_KEY, "dqp": self._peer_qpn, **bth}
        return b"".join(pack_header(each, fields) for each, fields in ((name, bth), *others))
