# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a batch used again, rows of different kinds side by side, and the types others read them by."""

from __future__ import annotations

import ctypes

import numpy as np
from vector_forms import icrc_by_hand, ipv6_packet, octets
from vectors import VECTORS

from mrc.wire.fields import ACK, COMMON
from mrc.wire.frames import Frames
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT
from mrc.wire.templates import packet_template
from mrc.wire.transmit_batch import TransmitBatch

TEMPLATE = packet_template(0xFC << 120 | 1, 0xFC << 120 | 2, 3, 0x100)
DATA = (b"abcde", b"wxyz")

# Memory that rows name by its address.
KEPT: list[np.ndarray] = []


def _acknowledge(batch: TransmitBatch, *ports: int) -> tuple[int, int]:
    frames, start = Frames(), batch.count
    for way, port in enumerate(ports):
        frames.add(TEMPLATE, port, bytes([port] + [0] * 27))
        batch.open_row(frames, way, port << 2, 64)
    span = start, batch.count
    fields = batch.fields(ACK, *span)
    fields["opcode"], fields["aeth_word"] = 0xD1, 0x1F000000 | np.array(ports)
    return span


def _send(batch: TransmitBatch, templates: np.ndarray, payloads: tuple[bytes, ...] = DATA) -> tuple[int, int]:
    """All of them lie in one piece of memory, a byte apart."""
    frames, start, offset = Frames(), batch.count, 1
    memory = np.frombuffer(b"".join(b"-" + payload for payload in payloads), np.uint8)
    KEPT.append(memory)
    for way, payload in enumerate(payloads):
        frames.add(templates[way].tobytes(), 0, bytes(28))
        batch.append(frames, way, 0, 80, memory.ctypes.data + offset, len(payload))
        offset += len(payload) + 1
    return start, batch.count


def test_several_rows_are_filled_each_with_its_own_and_no_others() -> None:
    batch = TransmitBatch(5)
    assert _acknowledge(batch, 4, 5) == (0, 2)
    assert _acknowledge(batch, 6) == (2, 3)
    assert batch.port.tolist() == [4, 5, 6, 0, 0]
    assert batch.destination[:, 0].tolist() == [4, 5, 6, 0, 0]
    assert batch.traffic_class.tolist() == [16, 20, 24, 0, 0]
    assert batch.header_length.tolist() == [64, 64, 64, 0, 0]
    assert batch.trailer_length.tolist() == [4, 4, 4, 0, 0]
    assert not batch.headers[3:].any()
    assert (batch.count, batch.free) == (3, 2)


def test_a_row_of_data_used_again_for_an_acknowledgement_has_no_payload_left() -> None:
    batch = TransmitBatch(2)
    _send(batch, np.stack([np.frombuffer(TEMPLATE, np.uint8)] * 2))
    assert batch.payload_length.tolist() == [5, 4]
    batch.clear()
    _acknowledge(batch, 1, 2)
    assert batch.payload_length.tolist() == batch.payload_address.tolist() == [0, 0]
    batch.seal(0)
    assert [len(batch.packet(row)) for row in (0, 1)] == [68, 68]


def test_data_after_control_packets_keeps_its_own_payload() -> None:
    batch = TransmitBatch(6)
    _acknowledge(batch, 1)
    _acknowledge(batch, 2)
    start, stop = _send(batch, np.stack([np.frombuffer(TEMPLATE, np.uint8)] * 2))
    _acknowledge(batch, 3)
    batch.seal(0)
    assert len(batch.payloads) == batch.count == 5
    assert [bytes(payload) for payload in batch.payloads] == [b"", b"", *DATA, b""]
    first, second = batch.payload_address[start:stop].tolist()
    assert second - first == len(DATA[0]) + 1
    assert ctypes.string_at(first, len(DATA[0])) == DATA[0]
    packets = [batch.packet(row) for row in range(5)]
    assert packets[2][80:-4] == b"abcde" + bytes(3)  # padded to a multiple of four
    assert packets[3][80:-4] == b"wxyz"
    for packet in packets:
        assert packet[-4:] == icrc_by_hand(packet[:-4])


def test_the_pad_count_joins_the_flags_of_the_template() -> None:
    """Section 3: SE 80, M 40, pad in 30. Five bytes take three of padding, four none."""
    templates = np.stack([np.frombuffer(TEMPLATE, np.uint8)] * 2)
    templates[:, 49] = 0xC0
    batch = TransmitBatch(2)
    _send(batch, templates)
    assert batch.fields(COMMON, 0, 2)["flags"].tolist() == [0xF0, 0xC0]
    assert templates[:, 49].tolist() == [0xC0, 0xC0]


def test_the_traffic_class_is_added_above_the_flow_label() -> None:
    batch = TransmitBatch(2)
    _acknowledge(batch, 63, 1)
    assert batch.fields(COMMON, 0, 2)["ip_word"].tolist() == [6 << 28 | 252 << 20 | 0x100, 6 << 28 | 4 << 20 | 0x100]


def test_fields_of_rows_longer_than_the_headers_are_those_of_each_row() -> None:
    """wire.md section 4: a row has room for a payload; the next row's header begins after it."""
    packets = [ipv6_packet(vector.transport) for vector in VECTORS if len(vector.payload) > 80]
    assert len(packets) > 2
    batch = ReceivedBatch.from_packets(packets)
    assert batch.room > 128
    assert batch.fields(COMMON)["psn_word"].tolist() == [int.from_bytes(packet[56:60], "big") for packet in packets]
    assert bytes(batch.view(1, 48, 60)) == packets[1][48:60]
    assert bytes(batch.view(2, 80, len(packets[2]))) == packets[2][80:]


def test_a_received_batch_says_port_0_unless_told_and_has_an_ipv4_header_only_where_one_came() -> None:
    batch = ReceivedBatch.from_packets([ipv6_packet(VECTORS[0].transport)], traffic_class=[7])
    assert batch.port.tolist() == [0]
    assert batch.ipv4 is None
    for array in (batch.port, batch.length, batch.traffic_class):
        assert array.dtype == np.int64


def test_a_bare_ipv4_header_is_read_as_one_and_anything_shorter_is_not() -> None:
    """RFC 791: twenty bytes without options."""
    header = octets("45b80014 0000 4000 40 11 0000 0a000001 0a010002")
    batch = ReceivedBatch.from_packets([header, header[:19]])
    assert batch.length.tolist() == [40, 19]
    assert [word >> 28 for word in batch.fields(COMMON)["ip_word"].tolist()] == [6, 4]
    assert [batch.packet(row) for row in (0, 1)] == [header, header[:19]]


def test_a_template_takes_any_address_to_its_last_bit() -> None:
    ones, bits = (1 << 128) - 1, 0x0123456789ABCDEFFEDCBA9876543210
    template = bytes(packet_template(ones, bits, 0xFFFF, 0xFFFFF, WireProfile(udp_port=5000)))
    assert template[8:24] == b"\xff" * 16
    assert template[24:40] == bits.to_bytes(16, "big")
    assert template[:8] == octets("600fffff 0000 11 40")
    assert template[40:44] == octets("ffff 1388")
    assert len(template) == EXTENSION_AT == 60


def test_the_arrays_have_the_widths_the_kernel_reads_them_by() -> None:
    """An address is 8 bytes, a sockaddr_in6 28; lengths and ports are 64-bit integers."""
    batch = TransmitBatch(3)
    assert batch.capacity == 3
    for name in ("header_length", "payload_length", "trailer_length", "port", "traffic_class"):
        array = getattr(batch, name)
        assert (array.dtype, array.shape) == (np.int64, (3,)), name
        assert not array.any()
    assert (batch.payload_address.dtype, batch.payload_address.shape) == (np.uint64, (3,))
    for name, width in (("headers", 128), ("trailers", 8), ("destination", 28)):
        array = getattr(batch, name)
        assert (array.dtype, array.shape) == (np.uint8, (3, width)), name
        assert not array.any()
