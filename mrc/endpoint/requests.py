"""Where requests leave: each packet of posted writes into a row of a batch, the first time and again."""

from __future__ import annotations

from mrc.endpoint.config import QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.message import Message
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.request_headers import RequestHeaders
from mrc.endpoint.sent import SentPackets
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import EXTENSION_AT, PSN_FLAGS_AT, REQUEST_LENGTH, REQUEST_TS_LENGTH, RTX
from mrc.wire.transmit_batch import TransmitBatch

_ICRC, _PSN_FLAGS_AT, _RTX_BIT = ICRC_LENGTH, PSN_FLAGS_AT, RTX >> 24


def full_packet_bytes(config: QpConfig) -> int:
    """Nominal size of a full packet (UDP length + 40; nscc.md calls it `mtu`)."""
    extension = REQUEST_TS_LENGTH if config.timestamps else REQUEST_LENGTH
    return EXTENSION_AT + extension + config.path_mtu + ICRC_LENGTH


class RequestMaker:
    """Writes packets of messages, each on an EV drawn before, and records that they leave. `messages` are those by
    MSN."""

    __slots__ = ("_again_class", "_counters", "_first_class", "_headers", "_messages", "_msns", "_paths", "_sent")

    def __init__(
        self,
        *,
        peer_qpn: int,
        config: QpConfig,
        sent: SentPackets,
        messages: dict[int, Message],
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
    ) -> None:
        self._sent = sent
        self._messages = messages
        self._paths = paths
        self._counters = counters
        self._first_class = classes.data
        self._again_class = classes.retransmission
        self._headers = RequestHeaders(peer_qpn=peer_qpn, timestamps=config.timestamps)
        self.make_ring()

    def make_ring(self) -> None:
        """A ring as large as that of `sent`, while nothing has been sent."""
        # By PSN the number of its message.
        self._msns = memoryview(bytearray(8 * (self._sent.mask + 1))).cast("q")

    def transmit_new(self, batch: TransmitBatch, message: Message, ev: int, now: int) -> int:
        """Append the next packet of `message`, under the next PSN. Returns its nominal bytes."""
        psn = self._sent.next_psn
        slot = psn & self._sent.mask
        self._msns[slot] = message.msn
        size = self._append(batch, message, message.sent_packets, psn, ev, self._first_class, now)
        self._sent.transmit_one(size, ev, now)
        return size

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        """Append this PSN, which went out before, with rtx. Returns its nominal bytes."""
        slot = psn & self._sent.mask
        message = self._messages[self._msns[slot]]
        size = self._append(batch, message, psn - message.first_psn, psn, ev, self._again_class, now)
        batch.set_bits(batch.count - 1, _PSN_FLAGS_AT, _RTX_BIT)
        self._sent.transmit_again_one(psn, size, ev, now)
        return size

    def _append(
        self, batch: TransmitBatch, message: Message, position: int, psn: int, ev: int, traffic_class: int, now: int
    ) -> int:
        moved = position * message.path_mtu
        length = min(message.length - moved, message.path_mtu)
        header_length = self._headers.length(message, position)
        row = batch.append(
            self._paths.frames, ev, traffic_class, header_length, message.payload, message.offset + moved, length
        )
        self._headers.write(batch, row, message, position, psn, now)
        self._counters.data_packets_sent += 1
        self._counters.data_bytes_sent += length
        return header_length + length + (-length & 3) + _ICRC
