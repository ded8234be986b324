"""Where requests leave: PSNs of posted writes into the rows of a batch (wire.md sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths import PathSet
from mrc.endpoint.request_headers import LONGEST_REQUEST, Piece, RequestHeaders
from mrc.endpoint.sent import SentPackets, Slots
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.endpoint.work import Message
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.rows import (
    BTH_AT,
    EXTENSION_AT,
    PSN_FLAGS_AT,
    REQUEST_LENGTH,
    REQUEST_TS,
    REQUEST_TS_LENGTH,
    RTX,
    TIMESTAMP_UNIT_NS,
    UDP_AT,
)
from mrc.wire.transmit_batch import TransmitBatch

I64 = npt.NDArray[np.int64]

# So few packets cost less one by one than arrays of them do.
_FEW = 6
_TIMESTAMP_AT = EXTENSION_AT + HEADER_LENGTHS["meth"]


def full_packet_bytes(config: QpConfig) -> int:
    """Nominal size of a full packet (UDP length + 40; nscc.md calls it `mtu`)."""
    extension = REQUEST_TS_LENGTH if config.timestamps else REQUEST_LENGTH
    return EXTENSION_AT + extension + config.path_mtu + ICRC_LENGTH


class RequestMaker:
    """Gives PSNs to the packets of messages and writes them, each on an EV drawn now. `messages` are those by MSN."""

    __slots__ = ("_classes", "_config", "_counters", "_headers", "_messages", "_paths", "_peer_qpn", "_sent")

    def __init__(
        self,
        *,
        peer_qpn: int,
        config: QpConfig,
        sent: SentPackets,
        messages: Mapping[int, Message],
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
    ) -> None:
        self._config = config
        self._sent = sent
        self._messages = messages
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._peer_qpn = peer_qpn
        self.make_ring()

    def make_ring(self) -> None:
        """A ring as large as that of `sent`, while nothing has been sent."""
        config = self._config
        self._headers = RequestHeaders(
            self._sent.mask + 1, peer_qpn=self._peer_qpn, path_mtu=config.path_mtu, timestamps=config.timestamps
        )

    def transmit_new(self, batch: TransmitBatch, pieces: Sequence[Piece], evs: I64, now: int) -> int:
        """Append the packets of `pieces`, as many as there are EVs. Returns their nominal bytes."""
        sent = self._sent
        slots = sent.slots_of(sent.next_psn, len(evs))
        psns = sent.add_new(len(evs))
        self._headers.cut(pieces, psns, slots)
        return self._append(batch, psns, slots, evs, now, again=False)

    def transmit_one(self, batch: TransmitBatch, message: Message, position: int, ev: int, now: int) -> int:
        """`transmit_new` for one packet, in plain numbers: what an unloaded write costs. Returns its nominal bytes."""
        sent = self._sent
        slot = sent.next_psn & sent.mask
        self._headers.cut_one(message, position, sent.next_psn, slot)
        size = self._append_one(batch, slot, message, ev, self._classes.data, now)
        sent.transmit_one(size, ev, now)
        return size

    def transmit_again(self, batch: TransmitBatch, psns: I64, evs: I64, now: int) -> int:
        """Append these PSNs, which went out before, with rtx on these EVs. Returns their nominal bytes."""
        if len(psns) > _FEW:
            return self._append(batch, psns, psns & self._sent.mask, evs, now, again=True)
        total = 0
        for psn, ev in zip(psns.tolist(), evs.tolist(), strict=True):
            slot = psn & self._sent.mask
            message = self._messages[int(self._headers.message[slot])]
            size = self._append_one(batch, slot, message, ev, self._classes.retransmission, now)
            batch.headers[batch.count - 1, PSN_FLAGS_AT] |= RTX >> 24
            self._sent.transmit_again_one(psn, size, ev, now)
            total += size
        return total

    def _append_one(
        self, batch: TransmitBatch, slot: int, message: Message, ev: int, traffic_class: int, now: int
    ) -> int:
        """`_append` for one packet, in plain numbers, but for the record that it was sent."""
        headers = self._headers
        offset, length = int(headers.offset[slot]), int(headers.length[slot])
        header_length = int(headers.header_length[slot])
        row = batch.append(
            *self._paths.framing[ev],
            traffic_class,
            header_length,
            message.request.source.view[offset : offset + length],
            int(headers.address[slot]),
        )
        batch.write_headers(row, BTH_AT, headers.image_of(slot, header_length))
        if self._config.timestamps:
            batch.write_headers(row, _TIMESTAMP_AT, (now // TIMESTAMP_UNIT_NS & 0xFFFF).to_bytes(2, "big"))
        self._counters.data_packets_sent += 1
        self._counters.data_bytes_sent += length
        return header_length + length + (-length & 3) + ICRC_LENGTH

    def _append(self, batch: TransmitBatch, psns: I64, slots: Slots, evs: I64, now: int, *, again: bool) -> int:
        headers, paths, messages = self._headers, self._paths, self._messages
        lengths = headers.length[slots]
        payloads = [
            messages[msn].request.source.view[offset : offset + length]
            for msn, offset, length in zip(
                headers.message[slots].tolist(), headers.offset[slots].tolist(), lengths.tolist(), strict=True
            )
        ]
        start, stop = batch.extend(
            paths.templates[evs],
            paths.port[evs],
            paths.destinations[evs],
            self._classes.retransmission if again else self._classes.data,
            headers.header_length[slots] - EXTENSION_AT,
            payloads,
            headers.address[slots],
            lengths,
        )
        batch.headers[start:stop, BTH_AT:LONGEST_REQUEST] = headers.image[slots]
        if again:
            batch.headers[start:stop, PSN_FLAGS_AT] |= RTX >> 24
        fields = batch.fields(REQUEST_TS, start, stop)
        if self._config.timestamps:
            fields["tx_timestamp"] = now // TIMESTAMP_UNIT_NS & 0xFFFF
        sizes = fields["ip_plen"].astype(np.int64) + UDP_AT
        self._sent.transmit(psns, slots, sizes, evs, now)
        self._counters.data_packets_sent += len(psns)
        self._counters.data_bytes_sent += int(lengths.sum())
        return int(sizes.sum())
