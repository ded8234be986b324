"""Where requests are made: PSNs of posted writes into the rows of a batch (wire.md sections 3 and 4)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths import PathSet
from mrc.endpoint.sent import SentPackets
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.endpoint.work import Message
from mrc.wire.batch import (
    EXTENSION_AT,
    PSN_BITS_MASK,
    REQUEST,
    REQUEST_LENGTH,
    REQUEST_TS,
    REQUEST_TS_LENGTH,
    RTX,
    TIMESTAMP_FTYPE,
    TS,
    UDP_AT,
    TransmitBatch,
)
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, IMMEDIATE_OPCODES

I64 = npt.NDArray[np.int64]

TIMESTAMP_UNIT_NS = 128
_HAS_IMMEDIATE = np.array([value in IMMEDIATE_OPCODES for value in range(256)], np.bool_)


def full_packet_bytes(config: QpConfig) -> int:
    """Nominal size of a full packet (UDP length + 40; nscc.md calls it `mtu`)."""
    extension = REQUEST_TS_LENGTH if config.timestamps else REQUEST_LENGTH
    return EXTENSION_AT + extension + config.path_mtu + ICRC_LENGTH


class RequestMaker:
    """Writes the packets of PSNs that `sent` knows, each on an EV drawn now. `messages` holds them by MSN."""

    __slots__ = ("_classes", "_config", "_counters", "_messages", "_paths", "_peer_qpn", "_sent")

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
        self._peer_qpn = peer_qpn
        self._config = config
        self._sent = sent
        self._messages = messages
        self._paths = paths
        self._counters = counters
        self._classes = classes

    def transmit(self, batch: TransmitBatch, psns: I64, evs: I64, flags: int, now: int) -> int:
        """Append these PSNs on these EVs, RTX in `flags` for those sent again. Returns their nominal bytes."""
        # Packets with an immediate are longer by its header, and rows of one call have headers of one length.
        immediate = _HAS_IMMEDIATE[self._sent.opcode[psns & self._sent.mask]]
        if not immediate.any():
            return self._append(batch, psns, evs, flags, now, immediate=False)
        size = 0
        changes = (np.flatnonzero(immediate[1:] != immediate[:-1]) + 1).tolist()
        for start, stop in itertools.pairwise([0, *changes, len(psns)]):
            size += self._append(batch, psns[start:stop], evs[start:stop], flags, now, immediate=bool(immediate[start]))
        return size

    def _append(self, batch: TransmitBatch, psns: I64, evs: I64, flags: int, now: int, *, immediate: bool) -> int:
        sent, paths, messages = self._sent, self._paths, self._messages
        slots = psns & sent.mask
        lengths = sent.length[slots]
        numbers = sent.message[slots]
        payloads = [
            messages[msn].request.source.view[offset : offset + length]
            for msn, offset, length in zip(numbers.tolist(), sent.offset[slots].tolist(), lengths.tolist(), strict=True)
        ]
        timestamps = self._config.timestamps
        extension_length = REQUEST_TS_LENGTH if timestamps else REQUEST_LENGTH
        if immediate:
            extension_length += HEADER_LENGTHS["immdt"]
        start, stop = batch.extend(
            paths.templates[evs],
            paths.port[evs],
            paths.destinations[evs],
            self._classes.retransmission if flags & RTX else self._classes.data,
            extension_length,
            payloads,
            sent.address[slots],
            lengths,
        )
        fields = batch.fields(REQUEST_TS if timestamps else REQUEST, start, stop)
        fields["opcode"] = sent.opcode[slots]
        fields["dqp_word"] = self._peer_qpn
        fields["psn_word"] = (psns & PSN_BITS_MASK) | (flags | (TS if timestamps else 0))
        fields["rqmsn"] = sent.rqmsn[slots] & 0xFFFF
        fields["msn"] = numbers & 0xFFFF
        if timestamps:
            fields["tx_timestamp"] = now // TIMESTAMP_UNIT_NS & 0xFFFF
            fields["tseth_word"] = TIMESTAMP_FTYPE
        fields["va"] = sent.va[slots]
        fields["rkey"] = sent.rkey[slots]
        fields["dmalen"] = sent.dmalen[slots]
        if immediate:
            fields["immediate"] = [messages[msn].request.immediate for msn in numbers.tolist()]
        sizes = fields["ip_plen"].astype(np.int64) + UDP_AT
        sent.transmit(psns, sizes, evs, now)
        self._counters.data_packets_sent += len(psns)
        self._counters.data_bytes_sent += int(lengths.sum())
        return int(sizes.sum())
