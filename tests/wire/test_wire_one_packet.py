# SPDX-License-Identifier: BSD-2-Clause
"""One packet at a time: layouts of one's own, defaults, the profile's switches, trimmed or not."""

from __future__ import annotations

import pytest
from vector_forms import octets
from vectors import VECTORS

from mrc.errors import CallerError
from mrc.wire.headers import HeaderLayout, pack_header, unpack_header
from mrc.wire.packet import decode_transport, encode_transport, is_trimmed
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

M_FIRST = WireProfile(solicited_event_first=False)
OP_IN_BITS_5_4 = WireProfile(eeth_op_shift=4)


@pytest.mark.parametrize("trimmed_dscp", [12, 16])
def test_a_packet_cut_right_after_its_bth_is_trimmed_and_reserved_bits_make_no_timestamp(trimmed_dscp: int) -> None:
    """Section 12. BTH 12 + METH 4 + RETH 16 + ICRC 4 = 36 without a TSETH, whatever the reserved bits of byte 8 say."""
    transport = bytearray(VECTORS[0].transport[:36])
    assert is_trimmed(bytes(transport[:12]), trimmed_dscp)
    transport[8] |= 0x4F
    assert not is_trimmed(bytes(transport), trimmed_dscp)
    transport[8] |= 0x10
    assert is_trimmed(bytes(transport), trimmed_dscp)


def test_a_layer_is_found_by_its_name() -> None:
    packet = decode_transport(VECTORS[0].transport + bytes(4))
    assert packet.layer("meth") == {"rqmsn": 0, "msn": 7}
    assert packet.layer("aeth") is None


def test_a_layout_reads_fields_from_the_most_significant_bit_down() -> None:
    layout = HeaderLayout.parse("thing", "a:3 b:s5 c:16")
    assert (layout.name, layout.length) == ("thing", 3)
    assert [(field.name, field.shift, field.bits, field.signed) for field in layout.fields] == [
        ("a", 21, 3, False),
        ("b", 16, 5, True),
        ("c", 0, 16, False),
    ]
    assert layout.unpack(b"\xbf\x12\x34\x56") == {"a": 5, "b": -1, "c": 0x1234}
    assert layout.unpack(b"\x0f\x00\x01") == {"a": 0, "b": 15, "c": 1}
    assert layout.pack({"a": 5, "b": -16, "c": 2}) == b"\xb0\x00\x02"
    assert layout.pack({"b": -1}) == b"\x1f\x00\x00"
    for wrong in (-17, 16):
        with pytest.raises(CallerError):
            layout.pack({"b": wrong})


def test_a_packet_without_payload_ends_with_its_last_header() -> None:
    bth = {"opcode": 0xD1, "pkey": 0xFFFF, "dqp": 5, "psn": 7}
    assert encode_transport([("bth", bth), ("aeth", {"msn": 3})]) == octets("d100ffff 00000005 00000007 00000003")


def test_the_switches_of_a_profile_hold_for_whole_packets_both_ways() -> None:
    """Section 3: SE in bit 7 and M in bit 6, or M first."""
    layers = [("bth", {"opcode": 0xD1, "se": 1, "m": 0, "psn": 7}), ("aeth", {})]
    assert encode_transport(layers)[1] == 0x80
    assert encode_transport(layers, profile=M_FIRST)[1] == 0x40
    for byte, profile, se in ((0x80, None, 1), (0x40, None, 0), (0x80, M_FIRST, 0), (0x40, M_FIRST, 1)):
        transport = bytes((0xD1, byte)) + bytes(14 + 4)
        packet = decode_transport(transport, profile=profile) if profile else decode_transport(transport)
        bth = packet.layer("bth")
        assert bth is not None
        assert (bth["se"], bth["m"]) == (se, 1 - se)


def test_standard_opcodes_keep_se_first_whatever_the_switch_says() -> None:
    """Section 3, "standard opcodes always keep that order": RC SEND Only (0x04). MRC-WIRE-34."""
    for profile in (DEFAULT_WIRE_PROFILE, M_FIRST):
        for se, m, byte in ((1, 0, 0x80), (0, 1, 0x40)):
            transport = encode_transport([("bth", {"opcode": 0x04, "se": se, "m": m})], profile=profile)
            assert transport[1] == byte
            bth = decode_transport(transport + bytes(4), profile=profile).layer("bth")
            assert bth is not None
            assert (bth["se"], bth["m"]) == (se, m)


def test_the_switches_reach_the_extension_headers_too() -> None:
    response = [("bth", {"opcode": 0xD9, "dqp": 2}), ("eeth", {"op": 1})]
    transport = encode_transport(response, profile=OP_IN_BITS_5_4)
    assert transport[12:14] == b"\x00\x10"
    eeth = decode_transport(transport + bytes(4), profile=OP_IN_BITS_5_4).layer("eeth")
    assert eeth is not None
    assert eeth["op"] == 1


def test_what_cannot_be_read_is_kept_as_payload() -> None:
    """After an opcode nobody knows, from a header cut short on, where there is no room for an ICRC."""
    bth = bytes((0xD1,)) + bytes(11)
    for transport, trimmed, rest in (
        (b"\xc2" + bth[1:] + b"abcdef", False, b"abcdef"),
        (bth + b"abc", False, b"abc"),
        (bth + b"abc", True, b"abc"),
        (bth + bytes(4) + b"ab", False, b"ab"),
        (bth + bytes(4) + b"ab", True, b"ab"),
    ):
        packet = decode_transport(transport, trimmed=trimmed)
        assert packet.payload == rest
        assert packet.icrc is None
        assert (packet.malformed is None) == trimmed


def test_m_first_swaps_the_two_bits_and_leaves_what_is_not_named_0() -> None:
    assert pack_header("bth", {"opcode": 0xCA}, M_FIRST)[1] == 0
    assert pack_header("bth", {"opcode": 0xCA, "m": 1}, M_FIRST)[1] == 0x80
    assert pack_header("bth", {"opcode": 0xCA, "se": 1, "m": 1, "pad": 1}, M_FIRST)[1] == 0xD0


def test_every_bit_of_a_response_survives_wherever_its_op_is() -> None:
    """Section 8: next(1, its last bit) reserved(3) op(2) reserved(2); or reserved(1) op(2) reserved(4)."""
    for byte_1 in range(256):
        header = bytes((0x20, byte_1)) + bytes(34)
        plain = unpack_header("eeth", header)
        assert (plain["op"], plain["next"], plain["type"]) == (byte_1 >> 2 & 3, byte_1 >> 7, 2)
        other = unpack_header("eeth", header, OP_IN_BITS_5_4)
        assert (other["op"], other["next"], other["type"]) == (byte_1 >> 4 & 3, byte_1 >> 7, 2)
        assert (other["reserved"], other["reserved2"]) == (byte_1 >> 6 & 1, byte_1 & 0xF)
        assert pack_header("eeth", plain) == header
        assert pack_header("eeth", other, OP_IN_BITS_5_4) == header


@pytest.mark.parametrize(("opcode", "mrc"), [(0x0A, False), (0xBF, False), (0xC0, True)])
def test_every_bit_of_byte_8_survives_in_standard_and_mrc_packets(opcode: int, mrc: bool) -> None:
    """Section 13: rtx and ts are 0 in standard opcodes; bits 5 and 4 are reserved there like the low four."""
    for byte_8 in range(256):
        header = bytes((opcode, 0, 0xFF, 0xFF, 0, 0, 0, 17, byte_8, 0, 0, 1))
        fields = unpack_header("bth", header)
        assert (fields["ackreq"], fields["reserved2"]) == (byte_8 >> 7, byte_8 >> 6 & 1)
        expected = (byte_8 >> 5 & 1, byte_8 >> 4 & 1, byte_8 & 0xF) if mrc else (0, 0, byte_8 & 0x3F)
        assert (fields["rtx"], fields["ts"], fields["reserved3"]) == expected
        assert pack_header("bth", fields) == header


def test_a_response_packed_without_some_fields_has_0_there() -> None:
    assert pack_header("eeth", {}, OP_IN_BITS_5_4) == bytes(36)
    for field, byte_1 in (("op", 0x10), ("reserved", 0x40), ("reserved2", 0x01)):
        assert pack_header("eeth", {field: 1}, OP_IN_BITS_5_4)[1] == byte_1


def test_in_an_mrc_opcode_the_reserved_field_has_four_bits() -> None:
    assert pack_header("bth", {"opcode": 0xBF, "reserved3": 0x3F})[8] == 0x3F
    assert pack_header("bth", {"reserved3": 0x10})[8] == 0x10
    with pytest.raises(CallerError, match=r"bth\.reserved3"):
        pack_header("bth", {"opcode": 0xC0, "reserved3": 0x10})


def test_a_switch_of_the_profile_moves_only_its_own_field() -> None:
    sack = unpack_header("seth", b"\x00\x62" + bytes(26), M_FIRST)
    assert (sack["m"], sack["pr"], sack["probe_id"]) == (3, 1, 0)
    assert unpack_header("erth", b"\x00\x30" + bytes(14), OP_IN_BITS_5_4)["op"] == 0
    assert pack_header("erth", {"op": 3}, OP_IN_BITS_5_4)[1] == 3
    assert pack_header("erth", {"op": 3}, WireProfile(eeth_op_shift=2))[1] == 3


def test_probe_ids_on_both_sides_of_the_sign_bit() -> None:
    """Section 6: unsigned, 16 bits."""
    for probe_id in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
        header = pack_header("seth", {"pr": 1, "probe_id": probe_id})
        assert header[2:4] == probe_id.to_bytes(2, "big")
        assert unpack_header("seth", header)["probe_id"] == probe_id
