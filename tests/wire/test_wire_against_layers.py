# SPDX-License-Identifier: BSD-2-Clause
"""The fast codec and the Scapy layers are two readings of wire.md: every opcode, any field values, the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from vector_forms import icrc_by_hand

from mrc.layers import BTH, ICRC, Pad, bind_to_udp
from mrc.layers.base import HEADERS as SCAPY_HEADERS
from mrc.layers.icrc import check_icrc
from mrc.wire.headers import HEADERS
from mrc.wire.icrc import icrc_ipv6
from mrc.wire.opcodes import OPCODES
from mrc.wire.packet import decode_transport, encode_transport

bind_to_udp()

Layers = list[tuple[str, dict[str, int]]]
CLASSES: dict[str, type[Packet]] = {"bth": BTH, **SCAPY_HEADERS}


@st.composite
def packets(draw: st.DrawFn, value: int) -> tuple[Layers, bytes]:
    """The layers of one packet of this opcode, every field but the opcode, pad and ts drawn; and a payload."""
    opcode = OPCODES[value]
    ts = draw(st.booleans()) if "tseth" in opcode.headers else False
    layers: Layers = []
    payload = draw(st.binary(max_size=40)) if opcode.has_payload else b""
    for name in ("bth", *(header for header in opcode.headers if ts or header != "tseth")):
        fields = {}
        for field in HEADERS[name].fields:
            low, high = (
                (-(1 << field.bits - 1), (1 << field.bits - 1) - 1) if field.signed else (0, (1 << field.bits) - 1)
            )
            fields[field.name] = draw(st.integers(low, high))
        if name == "bth":
            fields |= {"opcode": value, "pad": -len(payload) % 4, "ts": int(ts)}
            if not opcode.is_mrc:
                fields |= {"rtx": 0, "ts": 0}  # section 13: they do not exist there
        if name == "seth" and fields["pr"]:
            fields["probe_id"] = fields.pop("ack_psn_offset") & 0xFFFF
        layers.append((name, fields))
    return layers, payload


def _crafted(layers: Layers, payload: bytes) -> Packet:
    stack: Any = IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=3)
    for name, fields in layers:
        layer = CLASSES[name]
        widths = {
            field.name: HEADERS_BITS[name, field.name] // 8
            for field in layer.fields_desc
            if hasattr(field, "length_from")
        }
        values = {k: v.to_bytes(widths[k], "big") if k in widths else v for k, v in fields.items()}
        stack = stack / layer(**values)
    return stack / Raw(payload) if payload else stack


HEADERS_BITS = {(name, field.name): field.bits for name, layout in HEADERS.items() for field in layout.fields}


def _read(packet: Packet, layers: Layers) -> Layers:
    found: Layers = []
    layer: Any = packet
    for name, fields in layers:
        assert type(layer) is CLASSES[name]
        values = {}
        for key in fields:
            value = layer.getfieldval(key)
            values[key] = int.from_bytes(value, "big") if isinstance(value, bytes) else value
        found.append((name, values))
        layer = layer.payload
    return found


@pytest.mark.parametrize("value", OPCODES, ids=[opcode.name.replace(" ", "_") for opcode in OPCODES.values()])
@settings(max_examples=draws(6))
@given(data=st.data())
def test_both_write_the_same_bytes_and_read_the_same_fields(value: int, data: st.DataObject) -> None:
    layers, payload = data.draw(packets(value))
    built = bytes(_crafted(layers, payload))
    icrc = icrc_ipv6(built[:-4])
    fast = encode_transport(layers, payload, icrc=icrc)
    assert built[48:] == fast

    read = decode_transport(built[48:])
    assert (read.layers, read.payload, read.icrc, read.malformed) == (layers, payload, icrc, None)

    dissected = IPv6(built[:48] + fast)
    assert _read(dissected[BTH], layers) == layers
    assert (dissected[Raw].load if Raw in dissected else b"") == payload
    assert (Pad in dissected) == bool(-len(payload) % 4)
    assert dissected[ICRC].crc == int.from_bytes(icrc.to_bytes(4, "little"), "big")
    assert check_icrc(dissected) is True


@pytest.mark.parametrize("value", OPCODES)
def test_the_icrc_both_write_is_the_one_by_hand(value: int) -> None:
    """Section 9, one packet of each opcode: the bit-by-bit CRC is neither's own."""
    layers: Layers = [("bth", {"opcode": value, "psn": 0x123456, "reserved": 0})]
    layers += [(name, {}) for name in OPCODES[value].headers if name != "tseth"]
    payload = b"abcde" if OPCODES[value].has_payload else b""
    built = bytes(_crafted(layers, payload))
    assert built[-4:] == icrc_by_hand(built[:-4])
    assert encode_transport(layers, payload, icrc=icrc_ipv6(built[:-4]))[-4:] == built[-4:]


def test_standard_opcodes_show_neither_rtx_nor_ts() -> None:
    """Section 13: "in standard RoCEv2 opcodes (below 0xC0) rtx and ts do not exist and are 0", in both readings."""
    standard = [value for value, opcode in OPCODES.items() if not opcode.is_mrc]
    for value in standard:
        transport = bytes((value,)) + bytes(7) + b"\x30" + bytes(3) + bytes(OPCODES[value].header_length(ts=False))
        fast = decode_transport(transport + bytes(4)).layers[0][1]
        assert (fast["rtx"], fast["ts"]) == (0, 0)
        scapy = BTH(transport + bytes(4))
        assert (scapy.rtx, scapy.ts) == (0, 0), f"opcode {value:#04x}"
