# SPDX-License-Identifier: BSD-2-Clause
"""Whatever the bytes, there is an answer and it is a consistent one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from capture_forms import on_ethernet
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_vectors import PACKETS
from vector_forms import ipv6_packet
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.frames import Record
from mrc.capture.summary import Summary
from mrc.capture.verbose import layers_follow, shown_in_full
from mrc.capture.walk import walk
from mrc.wire.opcodes import OPCODES
from mrc.wire.packet import decode_transport
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

LINK_TYPES = (1, 12, 101, 113, 147, 228, 229, 276)
REASONS = {
    *("unknown_link", "short_header", "cut_short", "short_packet", "bad_version", "bad_header_length", "bad_length"),
    *("bad_srh", "unknown_opcode", "no_icrc", "bad_pad", "unexpected_payload"),
}
WHOLE = [on_ethernet(packet.packet) for packet in PACKETS]
WHOLE += [on_ethernet(ipv6_packet(vector.transport)) for vector in (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)]


def check(data: bytes, link_type: int = 1, wire_length: int | None = None) -> dict[str, Any]:
    """Dissects every way there is, but for Scapy's; what holds for any packet."""
    record = Record(0, data, len(data) if wire_length is None else wire_length, link_type)
    walked = walk(data, link_type, record.wire_length)
    document = packet_document(1, record, walked)
    json.dumps(document)
    line = Summary().line(1, record, walked)
    assert "\n" not in line
    assert line.isascii()
    reason = document["malformed"]
    assert reason is None or reason.split(":")[0] in REASONS
    assert (reason or "") in line
    assert "icrc" in {layer["layer"] for layer in document["layers"]} or document["icrc_ok"] is None
    for layer in document["layers"]:
        assert layer["layer"] != "payload" or 0 < layer["length"] <= record.wire_length
        for name, value in layer.get("fields", {}).items():
            assert value if name.startswith("reserved") else isinstance(value, int | str | list)
    if document["trimmed"]:
        assert document["icrc_ok"] is None
        assert "[trimmed]" in line
    return document


@settings(max_examples=draws(75))
@given(st.binary(max_size=300), st.sampled_from(LINK_TYPES), st.integers(0, 400))
def test_any_bytes(data: bytes, link_type: int, missing: int) -> None:
    check(data, link_type)
    check(data, link_type, len(data) + missing)


@given(st.data())
def test_any_bits_of_a_real_packet_flipped(data: st.DataObject) -> None:
    frame = bytearray(data.draw(st.sampled_from(WHOLE)))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(frame) - 1), min_size=1, max_size=6)):
        frame[bit // 8] ^= 1 << bit % 8
    check(bytes(frame))


@pytest.mark.parametrize("frame", WHOLE[::3])
def test_a_real_packet_cut_at_every_byte(frame: bytes) -> None:
    """Cut on the way, the lengths in it are wrong; cut by the capture, they are right. Neither has an ICRC."""
    whole = check(frame)
    for length in range(len(frame)):
        lost, not_kept = check(frame[:length]), check(frame[:length], wire_length=len(frame))
        assert lost["icrc_ok"] is None
        assert not_kept["icrc_ok"] is None
        assert lost["malformed"] is not None or lost["trimmed"] or length == 0
        # What there is agrees with the whole packet, but that the cut header may be payload.
        for part in (lost, not_kept):
            headers = [layer for layer in part["layers"] if layer["layer"] != "payload"]
            expected = [layer for layer in whole["layers"] if layer["layer"] != "payload"][: len(headers)]
            if headers and headers[-1]["layer"] == "srh":
                # Of a list cut in the middle, the segments that are there.
                segments = headers.pop()["fields"].pop("segments")
                assert expected.pop()["fields"]["segments"][: len(segments)] == segments
            assert headers == expected
        assert not_kept["trimmed"] is (whole["trimmed"] and not_kept["trimmed"])


@settings(max_examples=draws(75))
@given(
    st.one_of(st.sampled_from(sorted(OPCODES)), st.integers(0, 255)),
    st.binary(min_size=11, max_size=11),
    st.binary(max_size=120),
)
def test_the_short_way_through_the_transport_finds_what_the_codec_finds(opcode: int, bth: bytes, rest: bytes) -> None:
    transport = bytes([opcode]) + bth + rest
    packet = ipv6_packet(transport)
    document = check(packet, 229)
    decoded = decode_transport(packet[48:])
    assert document["malformed"] == decoded.malformed
    layers = document["layers"][2:]
    ours = [(layer["layer"], layer["fields"]) for layer in layers if layer["layer"] not in ("payload", "icrc")]
    assert [name for name, _ in ours] == [name for name, _ in decoded.layers]
    for (_, fields), (_, expected) in zip(ours, decoded.layers, strict=True):
        assert fields == {name: value for name, value in expected.items() if value or not name.startswith("reserved")}
    if decoded.icrc is not None:
        assert document["icrc_ok"] is True
        lengths = [layer["length"] for layer in layers if layer["layer"] == "payload"]
        assert sum(lengths) == len(decoded.payload)


def test_scapy_shows_any_packet(softroce_capture: Path) -> None:
    with softroce_capture.open("rb") as stream:
        frames = [record.data for record in read_capture(stream, "it")][::40] + WHOLE
    seeded = random.Random(4791)
    cases = [(frame, 1) for frame in frames]
    for frame in frames:
        damaged = bytearray(frame[: seeded.randrange(len(frame))])
        for _ in range(3 if damaged else 0):
            damaged[seeded.randrange(len(damaged))] ^= seeded.randrange(256)
        cases.append((bytes(damaged), seeded.choice(LINK_TYPES)))
    nested = bytes.fromhex("6000000000002940") + bytes(32)
    cases += [(nested * 1200, 229), (b"", 1), (b"", 101)]
    with layers_follow(DEFAULT_WIRE_PROFILE):
        for data, link_type in cases:
            walked = walk(data, link_type, len(data))
            text = shown_in_full(Record(0, data, len(data), link_type), walked, DEFAULT_WIRE_PROFILE)
            assert "ICRC: " in text
            assert text.endswith("\n")
