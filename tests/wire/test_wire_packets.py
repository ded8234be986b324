# SPDX-License-Identifier: BSD-2-Clause
"""The one-packet codec against byte vectors worked out by hand from wire.md sections 2 to 8."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_vectors import PACKETS, PacketVector
from vector_forms import Vector
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.errors import CallerError, MalformedPacket
from mrc.wire.headers import HEADERS, pack_header, shown, unpack_header
from mrc.wire.opcodes import HEADER_LENGTHS, OPCODES
from mrc.wire.packet import Transport, decode_transport, encode_transport, is_trimmed
from mrc.wire.profile import WireProfile

ALL = (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)
every_vector = pytest.mark.parametrize("vector", ALL, ids=[vector.name for vector in ALL])
every_packet = pytest.mark.parametrize("packet", PACKETS, ids=[packet.name for packet in PACKETS])
ICRC = 0xDDCCBBAA  # least significant byte first: aa bb cc dd


def _named(vector: Vector) -> list[tuple[str, dict[str, Any]]]:
    return [(layer["layer"], layer["fields"]) for layer in vector.layers]


def _shown(transport: Transport) -> list[tuple[str, dict[str, int]]]:
    """Layers as section 13 shows them: reserved fields only when not zero."""
    return [(name, shown(fields)) for name, fields in transport.layers]


@every_vector
def test_decoding_gives_the_vectors_fields(vector: Vector) -> None:
    """MRC-WIRE-09, MRC-WIRE-10, MRC-WIRE-11, MRC-WIRE-12, MRC-WIRE-13, MRC-WIRE-14, MRC-WIRE-15, MRC-WIRE-16,
    MRC-WIRE-20, MRC-REQ-01, MRC-REQ-05, MRC-REQ-08, MRC-REQ-12, MRC-ACK-01, MRC-ACK-03, MRC-SACK-01, MRC-SACK-09,
    MRC-SACK-11, MRC-NACK-01, MRC-PROBE-01, MRC-OP-01, MRC-OP-04.
    """
    packet = decode_transport(vector.transport + bytes.fromhex("aabbccdd"))
    assert _shown(packet) == _named(vector)
    assert packet.payload == vector.payload
    assert (packet.icrc, packet.malformed, packet.trimmed) == (ICRC, None, False)


@every_vector
def test_encoding_gives_the_vectors_bytes(vector: Vector) -> None:
    assert encode_transport(_named(vector), vector.payload) == vector.transport
    assert encode_transport(_named(vector), vector.payload, icrc=ICRC) == vector.transport + b"\xaa\xbb\xcc\xdd"


@every_vector
def test_the_pad_count_is_filled_in(vector: Vector) -> None:
    """Section 3: 0..3 bytes of padding after the payload. MRC-WIRE-23."""
    layers = [
        (name, {k: v for k, v in fields.items() if (name, k) != ("bth", "pad")}) for name, fields in _named(vector)
    ]
    assert encode_transport(layers, vector.payload) == vector.transport


@every_vector
def test_each_header_alone_packs_and_unpacks(vector: Vector) -> None:
    at = 0
    for name, fields in _named(vector):
        length = 12 if name == "bth" else HEADER_LENGTHS[name]
        piece = vector.headers[at : at + length]
        assert shown(unpack_header(name, piece)) == fields, name
        assert pack_header(name, fields) == piece, name
        at += length
    assert at == len(vector.headers)


@every_vector
def test_a_header_cut_short_is_malformed_and_says_what_is_left(vector: Vector) -> None:
    for length in range(len(vector.headers)):
        packet = decode_transport(vector.headers[:length])
        assert packet.malformed is not None, length
        assert "short_header" in packet.malformed
        assert packet.icrc is None
        with pytest.raises(MalformedPacket, match="short_header"):
            unpack_header("bth", vector.headers[: min(length, 11)])


@every_packet
def test_whole_packets_of_section_1(packet: PacketVector) -> None:
    transport = packet.packet[packet.offset :]
    decoded = decode_transport(transport, trimmed=packet.trimmed)
    expected = _named(packet.vector)
    if packet.trimmed:
        assert _shown(decoded) == expected[:3]
        assert decoded.icrc is None
    else:
        assert _shown(decoded) == expected
        assert decoded.icrc == int.from_bytes(packet.packet[-4:], "little")
    assert decoded.malformed is None


def test_trimmed_is_a_codepoint_and_too_short_for_the_headers() -> None:
    """Section 12: one of the two TRIMMED codepoints (12, 16) and too short for its opcode's headers and ICRC.

    MRC-TRIM-05, MRC-TRIM-06.
    """
    trimmed = PACKETS[4].packet[PACKETS[4].offset :]
    whole = PACKETS[1].packet[PACKETS[1].offset :]
    for dscp in range(64):
        assert is_trimmed(trimmed, dscp) == (dscp in (12, 16))
        assert not is_trimmed(whole, dscp)
    # BTH 12 + METH 4 + TSETH 4 + RETH 16 + ICRC 4 = 40 bytes is whole, 39 is not; without ts 36 and 35.
    assert not is_trimmed(whole[:40], 12)
    assert is_trimmed(whole[:39], 12)
    plain = VECTORS[0].transport
    assert not is_trimmed(plain[:36], 16)
    assert is_trimmed(plain[:35], 16)
    assert is_trimmed(trimmed, 20, WireProfile(dscp_trimmed=20))
    assert not is_trimmed(trimmed[:11], 12)
    assert not is_trimmed(b"\xff" + trimmed[1:], 12)


def test_a_probe_answers_bytes_2_and_3_are_an_unsigned_probe_id() -> None:
    """Section 6: bytes 2-3 are a signed ack_psn_offset, or with pr=1 an unsigned probe_id. MRC-SACK-02."""
    header = bytes(2) + b"\xff\xfe" + bytes(24)
    assert unpack_header("seth", header)["ack_psn_offset"] == -2
    answer = b"\x00\x02" + header[2:]
    assert unpack_header("seth", answer)["probe_id"] == 0xFFFE
    assert "ack_psn_offset" not in unpack_header("seth", answer)
    assert pack_header("seth", {"pr": 1, "probe_id": 0xFFFE}) == answer
    for probe_id in (-1, 0x10000):
        with pytest.raises(CallerError):
            pack_header("seth", {"pr": 1, "probe_id": probe_id})


def test_values_that_do_not_fit_are_the_callers() -> None:
    for name, layout in HEADERS.items():
        for field in layout.fields:
            low, high = (
                (-(1 << field.bits - 1), (1 << field.bits - 1) - 1) if field.signed else (0, (1 << field.bits) - 1)
            )
            others = {"opcode": 0xC6} if name == "bth" and field.name != "opcode" else {}
            for value in (low - 1, high + 1):
                with pytest.raises(CallerError, match=field.name):
                    pack_header(name, {**others, field.name: value})
            assert len(pack_header(name, {**others, field.name: high})) == layout.length
        with pytest.raises(CallerError, match="colour"):
            pack_header(name, {"colour": 1})
    with pytest.raises(CallerError):
        encode_transport([("aeth", {})])
    with pytest.raises(CallerError):
        encode_transport([])


def test_a_pad_count_beyond_the_payload_is_malformed() -> None:
    packet = decode_transport(bytes.fromhex("ca30ffff002b022280000000") + bytes(4 + 16) + b"ab" + bytes(4))
    assert packet.malformed is not None
    assert "bad_pad" in packet.malformed


def test_a_payload_after_a_header_only_opcode_is_malformed() -> None:
    """MRC-WIRE-02."""
    packet = decode_transport(VECTORS[8].transport + b"abcd" + bytes(4))
    assert packet.malformed is not None
    assert "unexpected_payload" in packet.malformed


def test_the_switches_of_grade_c_fields() -> None:
    """Section 3 (SE and M) and section 8 (op of the EETH in bits 3:2 or 5:4). MRC-WIRE-21, MRC-OP-05."""
    swapped, shifted = WireProfile(solicited_event_first=False), WireProfile(eeth_op_shift=4)
    assert pack_header("bth", {"opcode": 0xCA, "se": 1})[1] == 0x80
    assert pack_header("bth", {"opcode": 0xCA, "se": 1}, swapped)[1] == 0x40
    assert unpack_header("bth", pack_header("bth", {"opcode": 0xCA, "m": 1}, swapped), swapped)["m"] == 1
    for op in range(4):
        assert pack_header("eeth", {"op": op})[1] == op << 2
        assert pack_header("eeth", {"op": op}, shifted)[1] == op << 4
        assert unpack_header("eeth", pack_header("eeth", {"op": op}, shifted), shifted)["op"] == op


def test_standard_opcodes_have_neither_rtx_nor_ts() -> None:
    """Section 13: in opcodes below 0xC0 they do not exist and are 0; their bits are reserved and survive.

    MRC-NAME-05.
    """
    header = bytes.fromhex("0a 00 ffff 00 000011 30 000001")
    fields = unpack_header("bth", header)
    assert (fields["rtx"], fields["ts"]) == (0, 0)
    assert fields["reserved3"] == 0x30
    assert pack_header("bth", fields) == header
    mrc = unpack_header("bth", b"\xca" + header[1:])
    assert (mrc["rtx"], mrc["ts"], mrc["reserved3"]) == (1, 1, 0)


@given(st.binary(max_size=90), st.booleans())
def test_any_bytes_decode_without_raising_and_encode_back(data: bytes, trimmed: bool) -> None:
    packet = decode_transport(data, trimmed=trimmed)
    if packet.malformed is None and not trimmed:
        pad = packet.layers[0][1]["pad"]
        assert packet.icrc is not None
        encoded = encode_transport(packet.layers, packet.payload, icrc=packet.icrc)
        assert len(encoded) == len(data)
        # Padding is sent as zeros; what stood there is not kept.
        end = len(data) - 4 - pad
        assert encoded[:end] + encoded[len(data) - 4 :] == data[:end] + data[-4:]


@given(st.sampled_from(sorted(OPCODES)), st.binary(min_size=11, max_size=90))
def test_any_bytes_after_a_known_opcode_decode_without_raising(opcode: int, rest: bytes) -> None:
    packet = decode_transport(bytes((opcode,)) + rest)
    length = OPCODES[opcode].header_length(opcode >= 0xC0 and bool(rest[7] & 0x10))
    assert (packet.icrc is not None) == (len(rest) - 11 >= length + 4)
