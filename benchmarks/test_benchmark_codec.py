# SPDX-License-Identifier: BSD-2-Clause
"""The batch codec: 128 packets at a time, and one packet."""

from __future__ import annotations

from typing import Any

import numpy as np
from endpoints import BATCH, Pair, paths_of

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.completions import Completion
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.requestor.send import RequestHeaders
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.work import WriteRequest
from mrc.wire.fields import REQUEST
from mrc.wire.frames import Frames
from mrc.wire.packet import decode_transport
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

BTH_AT = 48  # bytes of IPv6 and UDP


PATH = paths_of(0)[0]
FRAMES = Frames()
FRAMES.add(PATH.template, PATH.port, PATH.destination)
REGION = MemoryRegion(bytes(4096 * BATCH), 0, remote_write=False)
DONE: list[Completion] = []
QUEUE = SendQueue(QpConfig(path_mtu=4096), CompletionRing(0, DONE.append))
QUEUE.post(WriteRequest(0, REGION, 0, 4096 * BATCH, 0, 0))


def _fill(batch: TransmitBatch) -> None:
    batch.clear()
    headers = RequestHeaders(QUEUE, peer_qpn=1, path_mtu=4096, timestamps=True, se=0)
    for psn in range(BATCH):
        row = batch.append(FRAMES, 0, 0, headers.length(0, psn), REGION.address + 4096 * psn, 4096)
        headers.write(batch, row, 0, 0, psn, psn, 0)


def test_headers_of_128_packets(benchmark: Any) -> None:
    batch = TransmitBatch(BATCH)
    benchmark(_fill, batch)
    assert batch.count == BATCH


def test_icrcs_of_128_packets_to_send(benchmark: Any) -> None:
    batch = TransmitBatch(BATCH)
    _fill(batch)
    benchmark(batch.seal, 0)


def test_icrcs_of_128_received_packets(benchmark: Any) -> None:
    (data,) = Pair(BATCH).data()

    def look() -> bool:
        return all(data.icrc_right(row) for row in range(BATCH))

    assert benchmark(look)


def test_fields_of_128_received_packets(benchmark: Any) -> None:
    (data,) = Pair(BATCH).data()

    def read(batch: ReceivedBatch) -> int:
        fields = batch.fields(REQUEST)
        return int((fields["psn_word"].astype(np.int64) & 0xFFFFFF).sum() + fields["va"].astype(np.int64).sum())

    benchmark(read, data)


def test_one_packet_read(benchmark: Any) -> None:
    (data,) = Pair(BATCH).data()
    whole = data.packet(0)
    assert benchmark(decode_transport, whole[BTH_AT:]).malformed is None
