# SPDX-License-Identifier: BSD-2-Clause
"""The batch codec against the hand-made vectors: rows give the vectors' fields, fields give the vectors' bytes."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from icrcs import icrcs_right
from vector_forms import Vector, ipv6_packet
from vectors import VECTORS

from mrc.wire.fields import ACK, COMMON, ENDPOINT_REQUEST, ENDPOINT_RESPONSE, NACK, PROBE, REQUEST, REQUEST_TS, SACK
from mrc.wire.frames import Frames
from mrc.wire.opcodes import HEADER_LENGTHS
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT, HEADER_ROOM
from mrc.wire.templates import packet_template
from mrc.wire.transmit_batch import TransmitBatch

SOURCE, DESTINATION = int(ipaddress.IPv6Address("fc00::1")), int(ipaddress.IPv6Address("fc00::2"))
TRAFFIC_CLASS = 0x12  # what ipv6_packet() sends: DSCP 4, ECT(0)

every_vector = pytest.mark.parametrize("vector", VECTORS, ids=[vector.name for vector in VECTORS])


def _layers(vector: Vector) -> dict[str, dict[str, Any]]:
    return {layer["layer"]: layer["fields"] for layer in vector.layers}


def _layout(vector: Vector) -> np.dtype[np.void]:
    layers = _layers(vector)
    by_header = {
        "aeth": ACK,
        "seth": SACK,
        "neth": NACK,
        "peth": PROBE,
        "erth": ENDPOINT_REQUEST,
        "eeth": ENDPOINT_RESPONSE,
    }
    if "meth" in layers:
        return REQUEST_TS if "tseth" in layers else REQUEST
    return next(layout for header, layout in by_header.items() if header in layers)


def _tseth_word(fields: dict[str, int]) -> int:
    return fields["tsr"] << 15 | fields["ftype"]


def _words(vector: Vector) -> dict[str, int]:
    """Every load of the vector's layout, its bits put together as wire.md's tables say."""
    layers = _layers(vector)
    bth = layers["bth"]
    words = {
        "opcode": bth["opcode"],
        "flags": bth["se"] << 7 | bth["m"] << 6 | bth["pad"] << 4 | bth["tver"],
        "pkey": bth["pkey"],
        "dqp_word": bth["dqp"],
        "psn_word": bth["ackreq"] << 31 | bth["rtx"] << 29 | bth["ts"] << 28 | bth["psn"],
    }
    if "meth" in layers:
        words |= {**layers["meth"], **layers["reth"]}
        if "tseth" in layers:
            words |= {"tx_timestamp": layers["tseth"]["tx_timestamp"], "tseth_word": _tseth_word(layers["tseth"])}
        if "immdt" in layers:
            words["immediate"] = layers["immdt"]["data"]
    elif "aeth" in layers:
        words["aeth_word"] = layers["aeth"]["syndrome"] << 24 | layers["aeth"]["msn"]
    elif "seth" in layers:
        seth, state = layers["seth"], layers["cc_state"]
        probe_id = seth.get("probe_id")
        words |= {name: seth[name] for name in ("entropy", "spdcid", "dpdcid", "mpr", "sack_offset", "bitmap")}
        words |= {
            "seth_word": seth["type"] << 12 | seth["next"] << 7 | seth["m"] << 5 | seth["pr"] << 1,
            "ack_psn_offset": seth["ack_psn_offset"] if probe_id is None else (probe_id ^ 0x8000) - 0x8000,
            "cack_word": seth["cack_psn"],
            "cc_type": seth["cc_type"] << 4 | seth["cc_flags"],
            "tx_timestamp": state["tx_timestamp"],
            "ooo_count": state["ooo_count"],
            "rcvd_word": state["restore_cwnd"] << 31 | state["rcv_cwnd_pen"] << 24 | state["rcvd_bytes"],
        }
    elif "neth" in layers:
        neth = layers["neth"]
        words |= {name: neth[name] for name in ("reason", "vendor_info", "entropy", "spdcid", "dpdcid", "tx_timestamp")}
        words |= {
            "neth_word": neth["type"] << 12 | neth["next"] << 7,
            "nack_word": neth["nack_psn"],
            "cc_type": neth["cc_type"] << 4 | neth["cc_flags"],
        }
    elif "peth" in layers:
        peth = layers["peth"]
        words |= {name: peth[name] for name in ("vendor_info", "probe_id", "spdcid", "dpdcid", "tx_timestamp")}
        words |= {"peth_word": peth["type"] << 12 | peth["next"] << 7, "tseth_word": _tseth_word(peth)}
    elif "erth" in layers:
        erth = layers["erth"]
        words |= {name: erth[name] for name in ("vendor_info", "port_status_mask", "tx_timestamp")}
        words["erth_word"] = erth["type"] << 12 | erth["next"] << 7 | erth["op"]
        words["tseth_word"] = _tseth_word(erth)
    else:
        eeth = layers["eeth"]
        words["eeth_word"] = eeth["type"] << 12 | eeth["next"] << 7 | eeth["op"] << 2
        words["tx_timestamp"] = eeth["tx_timestamp"]
    return words


def _write(batch: TransmitBatch, vector: Vector) -> int:
    """Append the vector's packet through its layout. Returns its row."""
    frames = Frames()
    frames.add(packet_template(SOURCE, DESTINATION, 3, 0x100), 1, bytes(28))
    # The vectors are kept: their memory stays where it is.
    address = np.frombuffer(vector.payload, np.uint8).ctypes.data if vector.payload else 0
    row = batch.append(frames, 0, TRAFFIC_CLASS, 48 + len(vector.headers), address, len(vector.payload))
    fields = batch.fields(_layout(vector), row, row + 1)
    for name, value in _words(vector).items():
        if name == "flags":
            assert fields["flags"][0] == value & 0x30  # the pad count is the batch's business
        fields[name] = value
    return row


@every_vector
def test_fields_assigned_give_the_vectors_bytes(vector: Vector) -> None:
    """The whole packet: IPv6, UDP, lengths, pad count, padding and ICRC too (wire.md sections 1 to 9).

    MRC-WIRE-01, MRC-WIRE-02, MRC-WIRE-09, MRC-ICRC-09.
    """
    batch = TransmitBatch(1)
    row = _write(batch, vector)
    batch.seal(0)
    assert batch.packet(row) == ipv6_packet(vector.transport)
    assert (batch.port[row], batch.traffic_class[row], batch.payload_length[row]) == (
        1,
        TRAFFIC_CLASS,
        len(vector.payload),
    )


@every_vector
def test_the_vectors_bytes_give_the_fields(vector: Vector) -> None:
    batch = ReceivedBatch.from_packets([ipv6_packet(vector.transport)])
    fields = batch.fields(_layout(vector))
    for name, value in _words(vector).items():
        assert int(fields[name][0]) == value, name
    assert icrcs_right(batch, np.array([0])).tolist() == [True]


def test_all_vectors_in_one_batch() -> None:
    """Rows of every kind and length do not touch each other, and a second use leaves nothing behind of what counts."""
    batch = TransmitBatch(len(VECTORS))
    for _ in range(2):
        for vector in VECTORS:
            _write(batch, vector)
        assert batch.free == 0
        batch.seal(0)
        expected = [ipv6_packet(vector.transport) for vector in VECTORS]
        assert [batch.packet(row) for row in range(batch.count)] == expected
        received = ReceivedBatch.from_packets(expected, port=3)
        assert received.port.tolist() == [3] * received.count
        assert icrcs_right(received, np.arange(received.count)).all()
        assert received.length.tolist() == [len(packet) for packet in expected]
        assert [received.packet(row) for row in range(received.count)] == expected
        assert received.traffic_class.tolist() == [TRAFFIC_CLASS] * received.count
        batch.clear()
        assert (batch.count, batch.free) == (0, len(VECTORS))


def test_sealing_from_a_row_leaves_those_before_it() -> None:
    batch = TransmitBatch(3)
    for vector in VECTORS[:2]:
        _write(batch, vector)
    batch.seal(0)
    batch.trailers[:2] ^= 0xFF
    before = batch.trailers[:2].copy()
    _write(batch, VECTORS[2])
    batch.seal(2)
    assert (batch.trailers[:2] == before).all()
    assert batch.packet(2) == ipv6_packet(VECTORS[2].transport)


def test_a_template_has_the_first_sixty_bytes() -> None:
    """IPv6 40, UDP 8, BTH 12: addresses, ports and P_Key as in the vectors, what is open left 0."""
    template = bytes(packet_template(SOURCE, DESTINATION, 3, 0x100))
    packet = bytearray(ipv6_packet(VECTORS[8].transport)[:EXTENSION_AT])
    packet[0:2] = b"\x60\x00"  # traffic class
    packet[4:6] = packet[44:46] = b"\0\0"  # lengths

    assert template[:48] == packet[:48]
    assert template[48:] == bytes(2) + b"\xff\xff" + bytes(8)


def test_the_outer_traffic_class_is_the_callers_else_the_inner_ones() -> None:
    packet = ipv6_packet(VECTORS[0].transport)
    assert ReceivedBatch.from_packets([packet]).traffic_class.tolist() == [0x12]
    assert ReceivedBatch.from_packets([packet], traffic_class=[0x13]).traffic_class.tolist() == [0x13]


def test_no_packets_are_an_empty_batch() -> None:
    batch = ReceivedBatch.from_packets([])
    assert batch.count == 0
    assert len(batch.fields(COMMON)) == 0


@given(st.lists(st.binary(min_size=64, max_size=300), min_size=1, max_size=6), st.data())
def test_any_bit_turned_over_in_one_row_spoils_that_row_only(bodies: list[bytes], data: st.DataObject) -> None:
    """Section 9: the payload is covered to its last bit."""
    transport = VECTORS[0].headers
    packets = [ipv6_packet(transport + body) for body in bodies]
    row = data.draw(st.integers(0, len(packets) - 1))
    bit = data.draw(st.integers(8 * len(transport) + 8 * 48, 8 * len(packets[row]) - 1))
    damaged = bytearray(packets[row])
    damaged[bit // 8] ^= 1 << bit % 8
    packets[row] = bytes(damaged)
    batch = ReceivedBatch.from_packets(packets)
    assert icrcs_right(batch, np.arange(len(packets))).tolist() == [at != row for at in range(len(packets))]
    chosen = np.array([row, 0] if row else [0], np.int64)
    assert icrcs_right(batch, chosen).tolist() == [at != row for at in chosen]


def test_rows_have_room_for_every_header() -> None:
    """The longest header stack, EETH or SETH + CC_STATE after 60 bytes, and a write with everything."""
    longest = max(36, sum(HEADER_LENGTHS[name] for name in ("meth", "tseth", "reth", "immdt")))
    assert EXTENSION_AT + longest <= HEADER_ROOM
    for layout in (COMMON, REQUEST, REQUEST_TS, ACK, SACK, NACK, PROBE, ENDPOINT_REQUEST, ENDPOINT_RESPONSE):
        assert layout.itemsize == HEADER_ROOM
