"""The batch codec: 128 packets at a time, and one packet."""

from __future__ import annotations

import numpy as np
from endpoints import BATCH, Pair, paths_of

from mrc.wire.packet import decode_transport
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import REQUEST, REQUEST_LENGTH
from mrc.wire.transmit_batch import TransmitBatch

BTH_AT = 48  # bytes of IPv6 and UDP


PATH = paths_of(0)[0]
TEMPLATES = np.repeat(PATH.template[None], BATCH, axis=0)
DESTINATIONS = np.repeat(PATH.destination[None], BATCH, axis=0)
NUMBERS = np.arange(BATCH)
PAYLOAD = memoryview(bytes(4096))
ADDRESSES = np.zeros(BATCH, np.uint64)
LENGTHS = np.full(BATCH, 4096, np.int64)


def _fill(batch: TransmitBatch) -> None:
    batch.clear()
    start, stop = batch.extend(
        TEMPLATES, NUMBERS, DESTINATIONS, 0, REQUEST_LENGTH, [PAYLOAD] * BATCH, ADDRESSES, LENGTHS
    )
    fields = batch.fields(REQUEST, start, stop)
    fields["opcode"] = 0xC7
    fields["psn_word"] = NUMBERS
    fields["va"] = NUMBERS


def test_headers_of_128_packets(benchmark):
    batch = TransmitBatch(BATCH)
    benchmark(_fill, batch)
    assert batch.count == BATCH


def test_icrcs_of_128_packets_to_send(benchmark):
    batch = TransmitBatch(BATCH)
    _fill(batch)
    benchmark(batch.seal)


def test_icrcs_of_128_received_packets(benchmark):
    (data,) = Pair(BATCH).data()
    assert benchmark(lambda: all(data.icrc_right(row) for row in range(data.count)))


def test_fields_of_128_received_packets(benchmark):
    (data,) = Pair(BATCH).data()

    def read(batch: ReceivedBatch) -> int:
        fields = batch.fields(REQUEST)
        return int((fields["psn_word"].astype(np.int64) & 0xFFFFFF).sum() + fields["va"].astype(np.int64).sum())

    benchmark(read, data)


def test_one_packet_read(benchmark):
    (data,) = Pair(BATCH).data()
    whole = data.packet(0)
    assert benchmark(decode_transport, whole[BTH_AT:]).malformed is None
