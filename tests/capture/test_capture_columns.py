# SPDX-License-Identifier: BSD-2-Clause
"""The columns of a capture against the walk over one packet: the same layers, fields and verdicts for every packet."""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capture_forms import ETHER, START_S, enhanced, interface, on_ethernet, pcap, section
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_vectors import PACKETS
from vector_forms import ipv6_packet, with_icrc
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.capture.columns import EVERY, NO_TIME, NOT_THERE, RIGHT, WRONG, Columns, read_columns
from mrc.capture.fields import ipv6_text, packet_document
from mrc.capture.walk import walk
from mrc.capture.walked import Walked
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

LINK_TYPES = (1, 12, 101, 113, 147, 228, 229, 276)
HEADS = {
    1: ETHER,
    113: bytes.fromhex("0004 0001 0006 020000000001 0000"),
    276: bytes.fromhex("86dd 0000 00000003 0001 04 06 0200000000010000"),
}
WHOLE = [packet.packet for packet in PACKETS]
WHOLE += [ipv6_packet(vector.transport) for vector in (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)]
OTHER_PROFILE = WireProfile(
    solicited_event_first=False, eeth_op_shift=4, ev_low_half_in_source_port=False, accepted_udp_ports=(4791,)
)
Item = tuple[bytes, int, int]


def linked(packet: bytes, link_type: int) -> bytes:
    """An IP packet on a link of that type."""
    kind = b"\x86\xdd" if packet[:1] >= b"\x60" else b"\x08\x00"
    if link_type == 276:
        return kind + HEADS[276][2:] + packet
    return (HEADS[link_type] + kind if link_type in HEADS else b"") + packet


def under_srv6(packet: bytes, routing: bytes = b"") -> bytes:
    """An IPv6 packet in another one, a segment routing header between if given."""
    head = bytes.fromhex("61200000") + struct.pack(">HBB", len(routing) + len(packet), 43 if routing else 41, 63)
    return head + bytes(15) + b"\x01" + bytes.fromhex("5f000000110021031101410100000000") + routing + packet


SRH = bytes([41, 2, 4, 1, 0, 0, 0, 0]) + bytes.fromhex("5f000000410100000000000000000000")
IPV6 = [packet for packet in WHOLE if packet[0] >> 4 == 6]
WHOLE += [under_srv6(packet) for packet in IPV6[::5]] + [under_srv6(packet, SRH) for packet in IPV6[::7]]


def capture(items: Sequence[Item]) -> bytes:
    """A pcapng file of (bytes kept, length on the wire, link type), packet i at START_S + i seconds."""
    blocks = [section(), *(interface(link_type) for link_type in LINK_TYPES)]
    for second, (data, wire_length, link_type) in enumerate(items, START_S):
        blocks.append(enhanced(data, second * 1_000_000, LINK_TYPES.index(link_type), wire_length))
    return b"".join(blocks)


def columns_of(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[Columns]:
    return list(read_columns(io.BytesIO(data), "it", profile))


def text(layer: str, field: str, value: int) -> Any:
    """A number as the documents have it."""
    if layer == "ether" and field in ("dst", "src"):
        return value.to_bytes(6, "big").hex(":")
    if layer == "ipv4" and field in ("dst", "src"):
        return ".".join(map(str, value.to_bytes(4, "big")))
    return value


def _around(walked: Walked) -> Counter[str]:
    """How many headers of each name a tunnel around the packet has, of those names that the packet has inside too."""
    own = {name for name, at in walked.layers if at >= walked.inside}
    return Counter(name for name, at in walked.layers if at < walked.inside and name in own)


def compare(columns: Columns, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> int:
    """Holds every column to the documents of single packets; how many field values were compared."""
    documents, tunnels = [], []
    for row in range(len(columns)):
        record = columns.frames.record(row)
        walked = walk(record.data, record.link_type, record.wire_length, profile)
        documents.append(packet_document(columns.first + row, record, walked, profile))
        tunnels.append(_around(walked))
    verdicts = {True: RIGHT, False: WRONG, None: NOT_THERE}
    assert columns.numbers.tolist() == [document["number"] for document in documents]
    assert columns.icrc.tolist() == [verdicts[document["icrc_ok"]] for document in documents]
    assert columns.trimmed.tolist() == [document["trimmed"] for document in documents]
    assert [columns.malformed.get(row) for row in range(len(columns))] == [d["malformed"] for d in documents]
    expected: dict[tuple[str, str, int], dict[int, Any]] = {}
    there: dict[str, set[int]] = {}
    lengths = [0] * len(documents)
    crcs = {}
    for row, document in enumerate(documents):
        # What a tunnel around the packet has is not counted.
        seen = {name: -1 - count for name, count in tunnels[row].items()}
        for layer in document["layers"]:
            name = layer["layer"]
            there.setdefault(name, set()).add(row)
            if name == "payload":
                lengths[row] = layer["length"]
            elif name == "icrc":
                crcs[row] = layer["fields"]["crc"]
            else:
                occurrence = seen[name] = seen.get(name, -1) + 1
                for field, value in layer["fields"].items() if occurrence >= 0 else ():
                    expected.setdefault((name, field, occurrence), {})[row] = value
    assert columns.payload_length.tolist() == lengths
    assert dict(zip(*(part.tolist() for part in columns.crc()), strict=True)) == crcs
    for name, rows in there.items():
        assert set(np.flatnonzero(columns.has(name)).tolist()) == rows
    for (name, field, occurrence), by_row in expected.items():
        if field == "segments":
            found: dict[int, Any] = {row: [] for row in there["srh"]}
            for row, high, low in zip(*(part.tolist() for part in columns.segments()), strict=True):
                found[row].append(ipv6_text((high << 64 | low).to_bytes(16, "big")))
            if occurrence == 0 and all(sum(each["layer"] == "srh" for each in d["layers"]) < 2 for d in documents):
                assert found == by_row
            continue
        if name == "ipv6" and field in ("src", "dst"):
            parts = (part.tolist() for part in columns.addresses(field, occurrence))
            found = {
                row: ipv6_text((high << 64 | low).to_bytes(16, "big")) for row, high, low in zip(*parts, strict=True)
            }
        else:
            rows_found, values = columns.values(name, field, occurrence)
            found = {r: text(name, field, v) for r, v in zip(rows_found.tolist(), values.tolist(), strict=True)}
        if field.startswith("reserved"):
            found = {row: value for row, value in found.items() if value}
        assert found == by_row, (name, field, occurrence)
    return sum(map(len, expected.values()))


def changed(packet: bytes, draw: st.DrawFn) -> bytes:
    """A packet with some bits flipped, bytes cut or added; its ICRC made right again, or not."""
    data = bytearray(packet)
    how = draw(st.integers(0, 5))
    if how == 0:
        return packet
    if how <= 2:
        for bit in draw(st.lists(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=3)):
            data[bit // 8] ^= 1 << bit % 8
    elif how == 3:
        del data[draw(st.integers(0, len(data))) :]
    elif how == 4:
        data += bytes(draw(st.integers(1, 40)))
    else:
        at = draw(st.sampled_from([0, 1, 4, 5, 6, 7, 9, 20, 24, 25, 40, 42, 43, 44, 45, 46, 48, 49, 56, 80, 89, 96]))
        data[at % len(data)] = draw(st.integers(0, 255))
    return bytes(data)


@st.composite
def items(draw: st.DrawFn) -> Item:
    link_type = draw(st.sampled_from((1, 1, 1, *LINK_TYPES)))
    data = linked(changed(draw(st.sampled_from(WHOLE)), draw), link_type)
    if draw(st.integers(0, 9)) == 0:
        data = ETHER + bytes.fromhex("88a8 6007 8100 b064 86dd") + data[14:]
    kept = data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 5)) == 0 else data
    return kept, len(data), link_type


@settings(max_examples=draws(50))
@given(st.lists(items(), min_size=1, max_size=30), st.sampled_from([DEFAULT_WIRE_PROFILE, OTHER_PROFILE]))
def test_the_quick_way_and_the_slow_way_agree(packets: list[Item], profile: WireProfile) -> None:
    for columns in columns_of(capture(packets), profile):
        compare(columns, profile)


def test_an_occurrence_counts_no_header_of_a_tunnel_around_the_packet() -> None:
    """VXLAN for an Ethernet frame that holds nothing known, behind two VLAN tags, and a packet without a tunnel."""
    inside = bytes.fromhex("90000a0b0000 0102abcd0001 fedc")
    udp = struct.pack(">4H", 0x0312, 4789, 8 + 8 + len(inside), 0) + bytes.fromhex("0800000000002200")
    ip = struct.pack(">IHBB", 6 << 28, len(udp) + len(inside), 17, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
    tunnel = ETHER[:12] + bytes.fromhex("88a8 6007 8100 b064 86dd") + ip + udp + inside
    (columns,) = columns_of(capture([(tunnel, len(tunnel), 1), (on_ethernet(WHOLE[0]), len(WHOLE[0]) + 14, 1)]))
    assert compare(columns)
    rows, found = columns.values("ether", "dst", 0)
    assert [text("ether", "dst", value) for value in found.tolist()] == ["90:00:0a:0b:00:00", "02:00:00:00:00:02"]
    assert rows.tolist() == [0, 1]


def test_every_vector_on_every_link() -> None:
    packets = [linked(packet, link_type) for link_type in LINK_TYPES for packet in WHOLE]
    wanted = [(data, len(data), link) for data, link in zip(packets, np.repeat(LINK_TYPES, len(WHOLE)), strict=True)]
    runs = columns_of(capture([(data, length, int(link)) for data, length, link in wanted]))
    assert sum(map(compare, runs)) > 100 * len(WHOLE)
    # Whole packets of the stacks it knows do go the quick way.
    whole = [packet for packet in PACKETS if not packet.trimmed]
    tags = bytes.fromhex("88a8 6007 8100 b064")
    for head in (b"", tags[:4], tags):
        frames = [on_ethernet(packet.packet) for packet in whole]
        (columns,) = columns_of(pcap([frame[:12] + head + frame[12:] for frame in frames]))
        assert columns.slow == {}
        assert compare(columns) > 10 * len(whole)


def test_standard_opcodes_keep_se_first_whatever_the_switch_says() -> None:
    """Byte 1 of the BTH is 0x80 and 0x40, M first for MRC's opcode only. MRC-WIRE-34."""
    transports = [vector.transport for vector in (STANDARD_VECTORS[0], VECTORS[0])]
    packets = [
        bytes((*transport[:1], transport[1] & 0x3F | bits, *transport[2:]))
        for transport in transports
        for bits in (0x80, 0x40)
    ]
    (columns,) = columns_of(pcap([on_ethernet(ipv6_packet(packet)) for packet in packets]), OTHER_PROFILE)
    assert columns.column("bth", "se", default=-1).tolist() == [1, 0, 0, 1]
    assert columns.column("bth", "m", default=-1).tolist() == [0, 1, 1, 0]
    compare(columns, OTHER_PROFILE)


def test_all_cuts_of_a_packet_at_once() -> None:
    for packet in (WHOLE[2], under_srv6(IPV6[-1], SRH)):
        frame = on_ethernet(packet)
        cuts = [(frame[:length], wire, 1) for length in range(len(frame) + 1) for wire in (length, len(frame))]
        (columns,) = columns_of(capture(cuts))
        assert compare(columns) > 1000


def test_captures(softroce_capture: Path, external_captures: list[Path]) -> None:
    for path in (softroce_capture, *external_captures):
        for columns in columns_of(path.read_bytes()):
            assert compare(columns) > 3
    assert columns_of(softroce_capture.read_bytes())[0].slow == {}


def test_runs_number_on_and_missing_fields_have_the_default() -> None:
    by_name = {vector.name: vector for vector in VECTORS}
    ack, write = by_name["acknowledge"], by_name["write_only_pad_2_timestamp"]
    data = pcap([on_ethernet(ipv6_packet(vector.transport)) for vector in (ack, write)] * 5000)
    runs = columns_of(data)
    assert len(runs) > 1
    assert [number for columns in runs for number in columns.numbers.tolist()] == list(range(1, 10_001))
    lengths = np.concatenate([columns.column("reth", "dmalen", default=-5) for columns in runs])
    assert set(lengths[::2].tolist()) == {-5}
    assert set(lengths[1::2].tolist()) == {
        layer["fields"]["dmalen"] for layer in write.layers if layer["layer"] == "reth"
    }


def test_the_ev_is_in_source_port_and_inner_flow_label() -> None:
    """MRC-EV-02, MRC-EV-03, MRC-EV-04."""
    by_name = {packet.name: on_ethernet(packet.packet) for packet in PACKETS}
    (columns,) = columns_of(pcap([by_name["srv6_write"], by_name["ipv4_acknowledge"], by_name["ipv6_write"]]))
    rows, ev = columns.ev()
    assert dict(zip(rows.tolist(), ev.tolist(), strict=True)) == {0: 0x01000003, 1: 3, 2: 0x01000003}


def test_a_time_that_is_not_there() -> None:
    data = section() + interface() + enhanced(on_ethernet(WHOLE[0]), (1 << 64) - 1)
    (columns,) = columns_of(data)
    assert columns.frames.time_ns.tolist() == [NO_TIME]
    assert columns.frames.record(0).time_ns is None


def test_columns_that_no_packet_has_are_empty() -> None:
    (columns,) = columns_of(pcap([with_icrc(on_ethernet(WHOLE[1])[:60])]))
    rows, values = columns.values("eeth", "op")
    assert (len(rows), len(values)) == (0, 0)
    assert not columns.has("eeth").any()
    assert len(columns.segments()[0]) == 0
    assert len(columns.offsets("vlan", EVERY)[0]) == 0


@pytest.mark.parametrize("field", ["ack_psn_offset", "probe_id"])
def test_a_seth_has_one_of_two_fields(field: str) -> None:
    sacks = [on_ethernet(ipv6_packet(vector.transport)) for vector in VECTORS if "sack" in vector.name]
    (columns,) = columns_of(pcap(sacks))
    rows, _ = columns.values("seth", field)
    answers = columns.column("seth", "pr") == 1
    assert rows.tolist() == np.flatnonzero(answers if field == "probe_id" else ~answers).tolist() != []
