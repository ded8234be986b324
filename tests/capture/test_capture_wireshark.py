# SPDX-License-Identifier: BSD-2-Clause
"""The Lua dissector in a real tshark: its names, its values against our own reading, and what it leaves alone."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from capture_forms import enhanced, interface, on_ethernet, pcap, section
from packet_vectors import PACKETS
from vector_forms import Layers, Vector, bth, crc32_bit_by_bit, erth, ipv6_packet, vector, with_icrc
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.summary import info
from mrc.capture.walk import walk
from mrc.capture.wireshark import dissector_source, install
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]

# wire.md section 13, the rows of the headers that MRC opcodes have.
SECTION_13 = {
    "bth": "opcode se m pad tver pkey fecn becn dqp ackreq rtx ts psn",
    "meth": "rqmsn msn",
    "tseth": "tx_timestamp tsr ftype",
    "reth": "va rkey dmalen",
    "immdt": "data",
    "aeth": "syndrome msn",
    "seth": "type next m pr ack_psn_offset probe_id entropy spdcid dpdcid cack_psn cc_type cc_flags mpr sack_offset "
    "bitmap",
    "cc_state": "tx_timestamp ooo_count restore_cwnd rcv_cwnd_pen rcvd_bytes",
    "neth": "type next reason vendor_info entropy spdcid dpdcid nack_psn cc_type cc_flags tx_timestamp",
    "peth": "type next vendor_info probe_id spdcid dpdcid tx_timestamp tsr ftype",
    "erth": "type next op vendor_info port_status_mask tx_timestamp tsr ftype",
    "eeth": "type next op tx_timestamp",
}
# Runs of reserved bits in each header, by sections 3 to 8.
RESERVED = {"bth": 3, "tseth": 1, "seth": 3, "cc_state": 1, "neth": 3, "peth": 4, "erth": 4, "eeth": 4}
# What is not a header's field: verdicts and the rest of the packet.
ABOUT_THE_PACKET = {
    *("mrc.ev", "mrc.payload", "mrc.payload.length", "mrc.padding", "mrc.trimmed", "mrc.malformed"),
    *("mrc.icrc", "mrc.icrc.crc", "mrc.icrc.expected", "mrc.icrc_ok"),
    *("mrc.stream", "mrc.retransmission_of", "mrc.acked_in", "mrc.ack_of", "mrc.nack_of", "mrc.ack_rtt"),
}
FIELDS = [f"mrc.{layer}.{name}" for layer, names in SECTION_13.items() for name in names.split()]
RESERVED_FIELDS = [
    f"mrc.{layer}.reserved{number if number > 1 else ''}"
    for layer, count in RESERVED.items()
    for number in range(1, count + 1)
]
MRC_VECTORS = (*VECTORS, *RESERVED_VECTORS)
FLAGS = ("[AckReq]", "[rtx]")
TRUE = {"1", "True"}  # tshark's spelling changed in 4.2


class Tshark:
    """tshark with the script for one wire profile."""

    def __init__(self, directory: Path, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> None:
        self.capture = directory / "packets.pcap"
        # Homes of our own, so that whatever plugins the user has stay out.
        self.home, self.home_without = directory / "home", directory / "home-without"
        install(dissector_source(profile), self.home / ".local" / "lib" / "wireshark" / "plugins")

    def run(self, *argv: str, with_script: bool = True) -> str:
        home = str(self.home if with_script else self.home_without)
        environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
        command = ["tshark", *argv]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=240)
        assert "lua" not in done.stderr.lower(), done.stderr
        return done.stdout

    def rows(self, columns: Sequence[str], *argv: str, capture: Path | None = None) -> list[dict[str, str]]:
        """The columns of each packet that has them, empty ones left out."""
        wanted = [word for name in columns for word in ("-e", name)]
        text = self.run("-r", str(capture or self.capture), "-T", "fields", *argv, *wanted)
        lines = [dict(zip(columns, line.split("\t"), strict=True)) for line in text.splitlines()]
        return [{name: value for name, value in row.items() if value} for row in lines]

    def write(self, packets: Sequence[bytes]) -> None:
        """Make these packets the capture."""
        self.capture.write_bytes(pcap([on_ethernet(packet) for packet in packets]))

    def packets(self, packets: Sequence[bytes], columns: Sequence[str], *argv: str) -> list[dict[str, str]]:
        self.write(packets)
        return self.rows(columns, *argv)


@pytest.fixture
def tshark(tmp_path: Path) -> Tshark:
    return Tshark(tmp_path)


def documents(path: Path, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        return [
            packet_document(number, record, walk(record.data, record.link_type, record.wire_length, profile), profile)
            for number, record in enumerate(read_capture(stream, str(path)), 1)
        ]


def transport_fields(layers: Layers) -> dict[str, int]:
    """`mrc.bth.psn` -> value, for the layers from the BTH on."""
    return {
        f"mrc.{layer['layer']}.{name}": value
        for layer in layers
        if layer["layer"] in SECTION_13
        for name, value in layer["fields"].items()
    }


def numbers(row: dict[str, str]) -> dict[str, int]:
    """The header fields of a row of tshark's as numbers."""
    wide = {"mrc.eeth.reserved3"}
    return {
        name: int(text.replace(":", ""), 16) if name in wide else int(text, 0)
        for name, text in row.items()
        if name in {*FIELDS, *RESERVED_FIELDS}
    }


def shown_in_full(tshark: Tshark, capture: Path, with_script: bool) -> list[str]:
    """Every line of -V but the list of the dissectors that were asked, which ours joins on its ports."""
    lines = tshark.run("-r", str(capture), "-V", with_script=with_script).splitlines()
    return [line for line in lines if "Protocols in frame" not in line]


def as_it_is(transport: bytes, sport: int = 3, dport: int = 4791) -> bytes:
    """These bytes, however few, after IPv6 and UDP headers with the right lengths; no ICRC is added."""
    head = bytearray(ipv6_packet(bytes(8), sport, dport)[:48])
    head[4:6] = head[44:46] = (8 + len(transport)).to_bytes(2, "big")
    return bytes(head) + transport


def changed(packet: bytes, *places: int) -> bytes:
    data = bytearray(packet)
    for at in places:
        data[at] ^= 0x01
    return bytes(data)


def test_its_names_are_those_of_the_codec_below_mrc(tshark: Tshark) -> None:
    """MRC-NAME-11: exactly the names of section 13, whatever they are called in Python."""
    # Of a quarter of a million lines.
    listed = [line.split("\t") for line in tshark.run("-G", "fields").splitlines() if "\tmrc." in line]
    names = {line[2] for line in listed if line[0] == "F" and line[2].startswith("mrc.")}
    names -= {name for name in names if name.startswith("mrc.expert.")}
    assert names == {*FIELDS, *RESERVED_FIELDS, *(f"mrc.{layer}" for layer in SECTION_13), *ABOUT_THE_PACKET}
    types = {line[2]: line[3] for line in listed if line[0] == "F"}
    # Signed where section 6 says so, and nowhere else.
    assert {name for name in FIELDS if "INT" in types[name] and "UINT" not in types[name]} == {
        "mrc.seth.ack_psn_offset",
        "mrc.seth.sack_offset",
    }


def test_every_field_of_every_opcode_has_the_value_that_was_written(tshark: Tshark) -> None:
    """MRC-NAME-04: reserved fields only when not zero; MRC-NAME-10: probe_id in the place of ack_psn_offset."""
    packets = [ipv6_packet(item.transport) for item in MRC_VECTORS]
    rows = tshark.packets(packets, [*FIELDS, *RESERVED_FIELDS, "mrc.icrc_ok", "mrc.malformed", "mrc.payload"])
    ours = documents(tshark.capture)
    opcodes, values = set(), 0
    for item, row, document in zip(MRC_VECTORS, rows, ours, strict=True):
        found = numbers(row)
        assert found == transport_fields(item.layers) == transport_fields(document["layers"]), item.name
        assert (row["mrc.icrc_ok"] in TRUE, row.get("mrc.malformed")) == (True, None), item.name
        assert bytes.fromhex(row.get("mrc.payload", "").replace(":", "")) == item.payload, item.name
        opcodes.add(found["mrc.bth.opcode"])
        values += len(found)
    assert len(opcodes) == 12
    assert values > 600


def test_every_field_is_read_from_its_own_bits(tshark: Tshark) -> None:
    """One bit turned after another, reserved ones too: it shows in the field our codec has it in, and nowhere else."""
    packets = []
    for item in VECTORS:
        if item.name in (
            "write_last_with_immediate_pad_3",
            "write_only_pad_2_timestamp",
            "acknowledge",
            "probe",
        ) or any(
            word in item.name
            for word in ("section_6", "nack_trimmed", "endpoint_request_port", "endpoint_response_port")
        ):
            for bit in range(8, 8 * len(item.headers)):
                flipped = bytearray(item.transport)
                flipped[bit // 8] ^= 0x80 >> bit % 8
                packets.append(ipv6_packet(bytes(flipped)))
    rows = tshark.packets(packets, [*FIELDS, *RESERVED_FIELDS])
    assert len(packets) > 2000
    for row, document in zip(rows, documents(tshark.capture), strict=True):
        assert numbers(row) == transport_fields(document["layers"]), document["number"]


def test_standard_opcodes_are_left_to_tsharks_own_dissector(tshark: Tshark, softroce_capture: Path) -> None:
    columns = ("infiniband.bth.psn", "mrc.ev", "mrc")
    rows = tshark.rows(columns, capture=softroce_capture)
    assert [set(row) for row in rows] == [{"infiniband.bth.psn"}] * 212
    standard = tshark.capture.with_name("standard.pcap")
    transports = [item.transport for item in STANDARD_VECTORS]
    packets = [ipv6_packet(transport) for transport in transports] + [ipv6_packet(transports[0])[:-30]]
    standard.write_bytes(pcap([on_ethernet(packet) for packet in packets]))
    for capture in (softroce_capture, standard):
        shown = shown_in_full(tshark, capture, True)
        assert shown == shown_in_full(tshark, capture, False)
        assert any("InfiniBand" in line for line in shown)


def test_standard_opcodes_on_the_other_port_are_rocev2_too(tshark: Tshark) -> None:
    packets = [ipv6_packet(item.transport, dport=4971) for item in (STANDARD_VECTORS[0], VECTORS[0])]
    rows = tshark.packets(packets, ("infiniband.bth.psn", "mrc.bth.psn"))
    assert rows == [{"infiniband.bth.psn": "1"}, {"mrc.bth.psn": "0"}]


def test_other_protocols_are_not_touched(tshark: Tshark) -> None:
    packets = [ipv6_packet(VECTORS[0].transport, sport=40000, dport=dport) for dport in (53, 7, 9999)]
    # From one of our ports, but not to one.
    packets += [ipv6_packet(item.transport, 4791, 40000) for item in (STANDARD_VECTORS[0], VECTORS[0])]
    tshark.write(packets)
    assert shown_in_full(tshark, tshark.capture, True) == shown_in_full(tshark, tshark.capture, False)


@pytest.mark.parametrize(
    ("expression", "psns"),
    [
        ("mrc.bth.psn > 100 && mrc.seth.m == 1", [0x100]),
        ("mrc.seth.ack_psn_offset < 0", [0x100, 0xFFFFFF]),
        ("mrc.bth.opcode == 0xde", [0, 0]),
        ("mrc.reth.va == 0xfedcba9876543210", [0xA0B]),
        ("mrc.ev == 0x01000003 && mrc.immdt", [0xFFFFFE, 0x123456]),
    ],
)
def test_filters_find_what_they_ask_for(tshark: Tshark, expression: str, psns: list[int]) -> None:
    packets = [ipv6_packet(item.transport) for item in VECTORS]
    rows = tshark.packets(packets, ("mrc.bth.psn",), "-Y", expression)
    assert [int(row["mrc.bth.psn"]) for row in rows] == psns


def test_outer_headers_routing_headers_ipv4_and_trimmed_packets(tshark: Tshark) -> None:
    columns = [*FIELDS, "mrc.ev", "mrc.icrc_ok", "mrc.trimmed", "mrc.malformed"]
    rows = tshark.packets([packet.packet for packet in PACKETS], columns)
    for packet, row, document in zip(PACKETS, rows, documents(tshark.capture), strict=True):
        assert numbers(row) == transport_fields(document["layers"]), packet.name
        assert (row.get("mrc.icrc_ok") in TRUE) is (not packet.trimmed), packet.name
        assert (row.get("mrc.trimmed") in TRUE) is packet.trimmed, packet.name
        assert "mrc.malformed" not in row, packet.name
        # Source port 3; flow label 100 (hex), which IPv4 has not.
        assert int(row["mrc.ev"], 0) == (3 if packet.name.startswith("ipv4") else 0x01000003), packet.name
    assert sum("mrc.trimmed" in row for row in rows) == 1
    assert "mrc.reth.va" not in next(row for row in rows if "mrc.trimmed" in row)


def test_a_wrong_icrc_is_said_and_the_check_can_be_switched_off(tshark: Tshark) -> None:
    packets = []
    for packet in PACKETS:
        if not packet.trimmed:
            damaged = [changed(packet.packet, at) for at in (packet.offset + 9, len(packet.packet) - 6, -1)]
            # What the ICRC does not cover: the hop limit, or TTL, of the innermost IP header, and BTH byte 4.
            hop_limit = packet.offset - 8 - (12 if packet.name.startswith("ipv4") else 33)
            packets += [*damaged, changed(packet.packet, hop_limit, packet.offset + 4)]
    columns = ("mrc.icrc_ok", "mrc.expert.icrc", "mrc.icrc.expected", "_ws.col.Info")
    rows = tshark.packets(packets, columns)
    verdicts = [row["mrc.icrc_ok"] in TRUE for row in rows]
    assert verdicts == [False, False, False, True] * 4
    for row, right in zip(rows, verdicts, strict=True):
        wrong = ("mrc.expert.icrc" in row, "mrc.icrc.expected" in row, row["_ws.col.Info"].endswith("[ICRC wrong]"))
        assert wrong == (not right,) * 3
    unchecked = tshark.rows((*columns, "mrc.icrc.crc"), "-o", "mrc.check_icrc:FALSE")
    assert {name for row in unchecked for name in row} == {"_ws.col.Info", "mrc.icrc.crc"}
    assert not any("ICRC" in row["_ws.col.Info"] for row in unchecked)


def test_the_info_column_has_the_words_of_mrc_dissect(tshark: Tshark) -> None:
    packets = [ipv6_packet(item.transport) for item in MRC_VECTORS] + [packet.packet for packet in PACKETS]
    rows = tshark.packets(packets, ("_ws.col.Info", "_ws.col.Protocol"))
    for packet, row in zip(packets, rows, strict=True):
        words = info(walk(packet, 101, len(packet))).split(" ")
        of_bth = [number for number, word in enumerate(words) if word.startswith("PSN=") or word in FLAGS]
        if words[1] not in ("SACK", "NACK"):
            words.insert(of_bth[-1] + 1, "EV=0x00000003" if packet[0] >> 4 == 4 else "EV=0x01000003")
        assert row["_ws.col.Info"].split(" ") == ["MRC", *words]
        assert row["_ws.col.Protocol"] == "MRC"


def test_a_rendering_says_what_the_numbers_mean(tshark: Tshark) -> None:
    """Section 6's example: PSN 0 to 11 sent, 5 and 8 lost; 8 units of MPR are 1024 PSNs, 43 units 11008 bytes."""
    names = ("sack_section_6_example", "endpoint_request_port_status_update", "write_only_pad_2_timestamp")
    tshark.write([ipv6_packet(item.transport) for item in VECTORS if item.name in names])
    text = tshark.run("-r", str(tshark.capture), "-V", "-O", "mrc")
    for line in (
        "Multipath Reliable Connection, Reliability SACK, PSN: 4",
        "opcode: Reliability SACK (0xdc)",
        "ack_psn_offset: 7 (PSN 11)",
        "mpr: 8 (1024 PSNs)",
        "bitmap: 0x0000000000000076 (received 6-7, 9-11)",
        "rcvd_bytes: 43 (11008 bytes)",
        "port_status_mask: 0x0000000b (up: 1-2, 4)",
        "tx_timestamp: 43981 (5629568 ns)",
        "[EV: 0x01000003]",
    ):
        assert line in text


DAMAGE = ("mrc.malformed", "mrc.icrc_ok", "mrc.trimmed", "mrc.payload.length")


def test_damaged_packets_are_judged_as_our_own_dissection_judges_them(tshark: Tshark) -> None:
    """Cut on the way, cut by the capture, bits flipped from the transport on."""
    seeded = random.Random(13)
    frames = [on_ethernet(ipv6_packet(item.transport)) for item in MRC_VECTORS]
    frames += [on_ethernet(packet.packet) for packet in PACKETS]
    cases: list[tuple[bytes, int]] = []
    for number, frame in enumerate(frames):
        transport = 14 + (48 if number < len(MRC_VECTORS) else PACKETS[number - len(MRC_VECTORS)].offset)
        for _ in range(8):
            kept = frame[: seeded.randrange(transport, len(frame))]
            # How a trimmed packet looks that the capture cut as well is not settled.
            wire_length = len(kept) if frame == frames[-1] else len(frame)
            cases += [(kept, len(kept)), (kept, wire_length)]
        for _ in range(24):
            damaged = bytearray(frame)
            for _ in range(seeded.randrange(1, 4)):
                damaged[seeded.randrange(transport, len(frame))] ^= 1 << seeded.randrange(8)
            cases.append((bytes(damaged), len(damaged)))
    blocks = [enhanced(data, number, wire_length=length) for number, (data, length) in enumerate(cases)]
    tshark.capture.write_bytes(section() + interface() + b"".join(blocks))
    rows = tshark.rows((*FIELDS, *RESERVED_FIELDS, *DAMAGE, "mrc.ev"))
    reasons = set()
    for row, document in zip(rows, documents(tshark.capture), strict=True):
        layers = [layer for layer in document["layers"] if layer["layer"] in SECTION_13]
        if "mrc.ev" not in row:
            # The bit that makes an opcode MRC's was flipped, or nothing of the transport was kept.
            assert not layers or layers[0]["fields"]["opcode"] < 0xC0
            continue
        assert numbers(row) == transport_fields(layers), document["number"]
        assert row.get("mrc.malformed") == document["malformed"], document["number"]
        icrc_ok = row["mrc.icrc_ok"] in TRUE if "mrc.icrc_ok" in row else None
        assert icrc_ok is document["icrc_ok"], document["number"]
        assert ("mrc.trimmed" in row) is document["trimmed"], document["number"]
        payload = [layer["length"] for layer in document["layers"] if layer["layer"] == "payload"]
        assert int(row.get("mrc.payload.length", 0)) == sum(payload), document["number"]
        reasons.add((document["malformed"] or "").split(":")[0])
    assert reasons >= {"", "cut_short", "short_packet", "unknown_opcode", "bad_pad"}


def test_a_length_that_cannot_be_is_named_as_our_own_dissection_names_it(tshark: Tshark) -> None:
    """Headers that end too early, an ICRC that does not fit, bytes after a control packet, a UDP length too short."""
    by_name = {item.name: item for item in VECTORS}
    sack, write = by_name["sack_section_6_example"], by_name["write_only_pad_2_timestamp"]
    # BTH 12, METH 4, TSETH 4, RETH 16: the first 36 bytes of the write are its headers.
    transports = [sack.transport[:-1], sack.transport[:30], write.transport[:36], write.transport[:39], b"\xdc"]
    packets = [as_it_is(transport) for transport in transports]
    packets += [ipv6_packet(sack.transport + b"more"), ipv6_packet(sack.transport)[:-2]]
    # An opcode that does not exist, pad count 3 (30 hex), 5 bytes after the BTH: 4 of them are the ICRC.
    packets.append(as_it_is(b"\xc0\x30" + bytes(10) + bytes(5)))
    # The IPv6 length four bytes more than UDP's: 4 + 60 = 64 = 40 hex.
    longer = bytearray(ipv6_packet(sack.transport) + bytes(4))
    longer[5] += 4
    columns = ("mrc.malformed", "mrc.expert.malformed", "mrc.payload.length", "mrc.padding")
    rows = tshark.packets([*packets, bytes(longer)], columns)
    expected = documents(tshark.capture)
    for row, document in zip(rows, expected, strict=True):
        lengths = [layer["length"] for layer in document["layers"] if layer["layer"] == "payload"]
        assert (row["mrc.malformed"], int(row.get("mrc.payload.length", 0))) == (document["malformed"], sum(lengths))
        assert "mrc.expert.malformed" in row
    assert rows[7]["mrc.padding"] == "00"
    assert {document["malformed"].split(":")[0] for document in expected} == {
        *("no_icrc", "short_header", "unexpected_payload", "short_packet", "unknown_opcode", "bad_length")
    }


def test_a_thousand_packets_of_junk_raise_nothing(tshark: Tshark) -> None:
    """Random bytes behind the UDP header of our ports, and whole frames of which random bytes were changed."""
    seeded = random.Random(4791)
    frames, ours = [], 0
    for number in range(600):
        transport = bytearray(seeded.randbytes(seeded.randrange(1, 160)))
        if number % 3:
            # An opcode from 0xC0 on, every other time one that exists.
            transport[0] = seeded.choice((0xC6, 0xC9, 0xCA, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE, transport[0] | 0xC0))
        ours += transport[0] >= 0xC0
        frames.append(on_ethernet(as_it_is(bytes(transport), 0xC000 + number, seeded.choice((4791, 4971)))))
    whole = [on_ethernet(packet.packet) for packet in PACKETS]
    for _ in range(400):
        damaged = bytearray(seeded.choice(whole))
        for _ in range(seeded.randrange(1, 12)):
            damaged[seeded.randrange(12, len(damaged))] = seeded.randrange(256)
        frames.append(bytes(damaged[: seeded.randrange(12, len(damaged) + 1)]))
    tshark.capture.write_bytes(pcap(frames))
    rows = tshark.rows(("frame.number", "mrc.ev"))
    assert [row["frame.number"] for row in rows] == [str(number) for number in range(1, 1001)]
    assert sum("mrc.ev" in row for row in rows[:600]) == ours
    text = tshark.run("-r", str(tshark.capture), "-V")
    assert text.count("Multipath Reliable Connection") >= ours
    assert "Lua Error" not in text
    # Only tshark's own dissectors may call a packet malformed by failing.
    tail = [line for line in text.splitlines() if line.startswith("[Malformed Packet")]
    assert not any("MRC" in line.upper() for line in tail)


def test_an_ev_that_is_another_protocols_port_is_mrc_all_the_same(tshark: Tshark) -> None:
    """The plan's EV of uplink 7 leaves from the port of echo; tshark asks the dissector of the lower port first."""
    sports = [7] * 3 + [53] * 3
    packets = [ipv6_packet(VECTORS[0].transport, sport=sport) for sport in sports]
    rows = tshark.packets(packets, ("mrc.ev", "mrc.bth.psn", "mrc.icrc_ok", "_ws.col.Protocol", "frame.protocols"))
    assert [int(row["mrc.ev"], 0) for row in rows] == [0x01000000 + sport for sport in sports]
    assert all(row["mrc.icrc_ok"] in TRUE and row["_ws.col.Protocol"] == "MRC" for row in rows)
    # From the second packet of a port on, the other dissector is not asked.
    assert {row["frame.protocols"] for row in rows[1:3] + rows[4:]} == {"eth:ethertype:ipv6:udp:mrc"}
    again = tshark.rows(("frame.protocols",), "-2", "-Y", "mrc")
    assert [row["frame.protocols"] for row in again] == ["eth:ethertype:ipv6:udp:mrc"] * 6


def test_another_port_can_be_decoded_as_mrc(tshark: Tshark) -> None:
    packets = [ipv6_packet(VECTORS[0].transport, sport=50000, dport=9999)]
    assert tshark.packets(packets, ("mrc.bth.dqp",)) == [{}]
    assert tshark.packets(packets, ("mrc.bth.dqp",), "-d", "udp.port==9999,mrc") == [{"mrc.bth.dqp": "0x2b0222"}]


OTHER_BITS: tuple[tuple[dict[str, Any], Vector, str, int], ...] = (
    # BTH byte 1: bit 7 is M now, bit 6 is SE.
    (
        {"solicited_event_first": False},
        vector("m", "c7 80 ffff 00 2b0222 00 000001 00000001" + "00" * 16, bth(0xC7, 1, 1)),
        "mrc.bth.m",
        1,
    ),
    # EETH byte 1: op in bits 5:4, so 10 hex is op 1.
    (
        {"eeth_op_shift": 4},
        vector("op", "d9 00 ffff 00 000002 00 000001 0010" + "00" * 34, bth(0xD9, 2, 1)),
        "mrc.eeth.op",
        1,
    ),
    # Source port 3 is the high half, flow label 100 hex the low one.
    ({"ev_low_half_in_source_port": False}, VECTORS[0], "mrc.ev", 0x00030100),
    ({"accepted_udp_ports": (4791,)}, VECTORS[0], "mrc.ev", 0x01000003),
)


@pytest.mark.parametrize(("switches", "item", "field", "value"), OTHER_BITS, ids=["se_m", "eeth_op", "ev", "port"])
def test_the_switches_of_the_wire_profile_are_followed(
    tmp_path: Path, switches: dict[str, Any], item: Vector, field: str, value: int
) -> None:
    profile = WireProfile(**switches)
    tshark = Tshark(tmp_path, profile)
    rows = tshark.packets([ipv6_packet(item.transport)], [*FIELDS, *RESERVED_FIELDS, "mrc.ev"])
    assert int(rows[0][field], 0) == value
    assert numbers(rows[0]) == transport_fields(documents(tshark.capture, profile)[0]["layers"])


def test_every_bit_of_the_eeth_moves_with_its_switch(tmp_path: Path) -> None:
    profile = WireProfile(eeth_op_shift=4)
    tshark = Tshark(tmp_path, profile)
    head = next(item.transport for item in VECTORS if item.name == "endpoint_response_ev_probe")
    packets = [ipv6_packet(head[:12] + bytes(1) + bytes([value]) + head[14:]) for value in range(256)]
    rows = tshark.packets(packets, [*FIELDS, *RESERVED_FIELDS])
    for row, document in zip(rows, documents(tshark.capture, profile), strict=True):
        assert numbers(row) == transport_fields(document["layers"])


def test_ports_codepoints_and_the_icrc_follow_the_wire_profile(tmp_path: Path) -> None:
    """Port n at bit n; trimmed at DSCP 4, which is on no trimmed packet here; the ICRC over the outer header too."""
    profile = WireProfile(
        accepted_udp_ports=(5000,), first_port_bit=1, dscp_trimmed=4, dscp_trimmable=12, icrc_covers_outer=True
    )
    tshark = Tshark(tmp_path, profile)
    request = vector("ports", "d8 00 ffff 00 000002 00 000001 00000000 00000006 00000000 00000001", erth(0))
    srv6 = next(packet for packet in PACKETS if packet.name == "srv6_write")
    whole = bytearray(srv6.packet[:-4])
    whole[srv6.offset - 6 : srv6.offset - 4] = (5000).to_bytes(2, "big")
    masked = bytearray(whole)
    for ip in (0, 40):
        masked[ip] |= 0x0F
        masked[ip + 1] = masked[ip + 2] = masked[ip + 3] = masked[ip + 7] = 0xFF
    masked[86] = masked[87] = masked[92] = 0xFF
    icrc = crc32_bit_by_bit(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")
    packets = [ipv6_packet(request.transport, dport=5000), bytes(whole) + icrc]
    # Its METH is cut off, and its lengths say so: BTH 12 + 4, UDP 24 = 18 hex, the DSCP is 4.
    cut = bytearray(ipv6_packet(VECTORS[0].transport, dport=5000)[: 48 + 16])
    cut[4:6] = cut[44:46] = (24).to_bytes(2, "big")
    packets += [bytes(cut), ipv6_packet(VECTORS[0].transport, dport=4791)]
    rows = tshark.packets(packets, ("mrc.ev", "mrc.icrc_ok", "mrc.trimmed", "mrc.meth.msn"))
    assert [row.get("mrc.icrc_ok") in TRUE for row in rows] == [True, True, False, False]
    assert rows[2]["mrc.trimmed"] in TRUE
    assert rows[2]["mrc.meth.msn"] == "7"
    assert rows[3] == {}
    assert "(up: 1-2)" in tshark.run("-r", str(tshark.capture), "-V", "-O", "mrc", "-Y", "mrc.erth")


def test_the_json_of_tshark_has_the_fields_by_name(tshark: Tshark) -> None:
    tshark.write([with_icrc(ipv6_packet(VECTORS[0].transport)[:-4])])
    (packet,) = json.loads(tshark.run("-r", str(tshark.capture), "-T", "json"))
    layer = packet["_source"]["layers"]["mrc"]
    assert layer["mrc.bth"]["mrc.bth.psn"] == "0"
    assert layer["mrc.reth"]["mrc.reth.dmalen"] == "600"
