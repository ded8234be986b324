# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Where requests leave: each packet of posted writes into a row of a batch, the first time and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.config import QpConfig
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.request_headers import RequestHeaders
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.wire.compiled import i64s, python
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import EXTENSION_AT, PSN_FLAGS_AT, REQUEST_LENGTH, REQUEST_TS_LENGTH, RTX
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.counters import Counters
    from mrc.endpoint.paths.path_set import PathSet
    from mrc.endpoint.requestor.send_queue import SendQueue
    from mrc.endpoint.requestor.sent import SentPackets

_ICRC, _PSN_FLAGS_AT, _RTX_BIT = ICRC_LENGTH, PSN_FLAGS_AT, RTX >> 24


def full_packet_bytes(config: QpConfig) -> python[int]:
    """Nominal size of a full packet (UDP length + 40; nscc.md calls it `mtu`)."""
    extension = REQUEST_TS_LENGTH if config.timestamps else REQUEST_LENGTH
    return EXTENSION_AT + extension + config.path_mtu + ICRC_LENGTH


class RequestMaker:
    """Writes packets of the messages in `queue`, each on an EV drawn before, and records that they leave."""

    _sent: SentPackets
    _queue: SendQueue
    _paths: PathSet
    _counters: Counters
    _headers: RequestHeaders
    _first_class: int
    _again_class: int
    _path_mtu: int
    _msns: i64s

    __slots__ = tuple(__annotations__)

    def __init__(self, qp: QpParts, sending: SendingParts) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._paths = qp.paths
        self._counters = qp.counters
        self._path_mtu = qp.config.path_mtu
        self._first_class = qp.classes.data
        self._again_class = qp.classes.retransmission
        self._headers = RequestHeaders(
            sending.queue,
            peer_qpn=qp.peer.qpn,
            path_mtu=qp.config.path_mtu,
            timestamps=qp.config.timestamps,
            se=qp.wire.solicited_event_bit,
        )
        self.make_ring()

    def make_ring(self) -> python[None]:
        """A ring as large as that of `sent`, while nothing has been sent."""
        # By PSN the number of its message.
        self._msns = column(self._sent.mask + 1)

    def transmit_new(self, batch: TransmitBatch, msn: int, ev: int, now: int) -> int:
        """Append the next packet of message `msn`, under the next PSN. Returns its nominal bytes."""
        psn = self._sent.next_psn
        self._msns[psn & self._sent.mask] = msn
        position = self._queue.sent_packets[self._queue.place(msn)]
        size = self._append(batch, msn, position, psn, ev, self._first_class, now)
        self._sent.transmit_one(size, ev, now)
        return size

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        """Append this PSN, which went out before, with rtx. Returns its nominal bytes."""
        msn = self._msns[psn & self._sent.mask]
        position = psn - self._queue.first_psn[self._queue.place(msn)]
        size = self._append(batch, msn, position, psn, ev, self._again_class, now)
        batch.set_bits(batch.count - 1, _PSN_FLAGS_AT, _RTX_BIT)
        self._sent.transmit_again_one(psn, size, ev, now)
        return size

    def _append(
        self, batch: TransmitBatch, msn: int, position: int, psn: int, ev: int, traffic_class: int, now: int
    ) -> int:
        place, moved = self._queue.place(msn), position * self._path_mtu
        length = min(self._queue.length[place] - moved, self._path_mtu)
        header_length = self._headers.length(place, position)
        row = batch.append(
            self._paths.frames, ev, traffic_class, header_length, self._queue.address[place] + moved, length
        )
        self._headers.write(batch, row, place, msn, position, psn, now)
        self._counters.data_packets_sent += 1
        self._counters.data_bytes_sent += length
        return header_length + length + (-length & 3) + _ICRC
