# SPDX-License-Identifier: BSD-2-Clause
"""Packets inside mirror ports, overlays, labels and link types: found, sound, and as tshark with our Lua shows them."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capture_forms import enhanced, interface, pcap, section
from click.testing import CliRunner
from draws import draws
from encapsulations import ERSPAN_2_TRUNCATED, MACS, TSHARK_GUESSES, Case, cases, rdma_write, rocev1
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from test_capture_wireshark import TRUE, Tshark

from mrc.capture.columns import EVERY, RIGHT, WRONG, Columns, read_columns
from mrc.capture.columns.documents import documents
from mrc.capture.columns.lines import Lines
from mrc.capture.fields import packet_document
from mrc.capture.walk import walk
from mrc.cli import main

MRC_WRITE, RC_WRITE = 0xCA, 0x0A
CASES = [*cases(MRC_WRITE), *cases(RC_WRITE)]
SHARED = Path(__file__).parent / "cases"
needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]


def capture(found: list[Case]) -> bytes:
    links = sorted({case.link_type for case in found})
    blocks = [enhanced(case.data, number, links.index(case.link_type)) for number, case in enumerate(found)]
    return section() + b"".join([*map(interface, links), *blocks])


def columns_of(data: bytes) -> Columns:
    (columns,) = read_columns(io.BytesIO(data), "it")
    return columns


def document(case: Case) -> dict[str, Any]:
    (text,) = documents(columns_of(capture([case])), np.arange(1))
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", ["erspan2", "vxlan", "gre_ip", "mpls", "null"])
def test_captures_that_were_not_read(name: str) -> None:
    result = CliRunner().invoke(main, ["dissect", "--summary", str(SHARED / f"{name}.pcap.gz")])
    words = result.stdout.split()
    assert words[2:4] == ["10.0.0.1", "10.0.0.2"]
    said = "RC RDMA WRITE Only QP=0x000011 PSN=5 [AckReq] VA=0x1000 Len=16 Payload=16"
    assert " ".join(words[5:]) == said
    result = CliRunner().invoke(main, ["dissect", "--jsonl", str(SHARED / f"{name}.pcap.gz")])
    found = json.loads(result.stdout)
    assert (found["icrc_ok"], found["malformed"]) == (True, None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.opcode:02x}")
def test_what_is_inside_is_found(case: Case) -> None:
    columns = columns_of(capture([case]))
    assert not columns.slow, "it went packet by packet"
    assert columns.icrc.tolist() == [RIGHT]
    stack = columns.stacks[int(columns.stack[0])]
    assert stack.ip == (case.data.index(case.inner),)
    (line,) = Lines().lines(columns)
    ends = ["10.0.0.1", "10.0.0.2"] if case.inner[0] >> 4 == 4 else ["fd00::1", "fd00::2"]
    assert line.split()[2:4] == ends
    assert "RDMA WRITE Only QP=0x000011 PSN=5 [AckReq]" in line
    assert columns.values("udp", "sport")[1].tolist() == [0xC001]
    whole = walk(case.data, case.link_type, len(case.data))
    assert json.loads(documents(columns, np.arange(1))[0]) == packet_document(1, columns.frames.record(0), whole)


def test_every_packet_with_all_others_at_once() -> None:
    columns = columns_of(capture(CASES))
    assert not columns.slow
    assert set(columns.icrc.tolist()) == {RIGHT}
    assert columns.values("bth", "psn")[1].tolist() == [5] * len(CASES)


def test_layers_of_each_kind() -> None:
    found = {case.name: [layer["layer"] for layer in document(case)["layers"]] for case in cases(RC_WRITE)}
    inner = ["ipv4", "udp", "bth", "reth", "payload", "icrc"]
    assert found["erspan1-ipv4"] == ["ether", "ipv4", "gre", "ether", *inner]
    assert found["erspan2-ipv4"] == ["ether", "ipv4", "gre", "erspan2", "ether", *inner]
    assert found["erspan3_platform-ipv4"] == ["ether", "ipv4", "gre", "erspan3", "ether", *inner]
    assert found["vxlan_over_ipv6-ipv4"] == ["ether", "ipv6", "udp", "vxlan", "ether", *inner]
    assert found["geneve_ip-ipv4"] == ["ether", "ipv4", "udp", "geneve", *inner]
    assert found["mpls_labels-ipv4"] == ["ether", "mpls", "mpls", "mpls", *inner]
    assert found["pppoe-ipv4"] == ["ether", "pppoe", "ppp", *inner]
    assert found["ppp_compressed-ipv4"] == ["ppp_short", *inner]
    assert found["vntag_tagged-ipv4"] == ["ether", "vntag", "vlan", *inner]
    assert found["qinq-ipv4"] == ["ether", "vlan", "vlan", *inner]
    assert found["loop_2-ipv4"] == ["null", *inner]


def test_an_index_counts_the_packets_own_headers() -> None:
    (case,) = (case for case in cases(MRC_WRITE) if case.name == "vxlan_over_ipv6-ipv6")
    columns = columns_of(capture([case]))
    inner = int.from_bytes(bytes.fromhex("fd00") + bytes(6), "big")
    assert [int(high[0]) for high in (columns.addresses("src", 0)[1], columns.addresses("src")[1])] == [inner, inner]
    assert len(columns.addresses("src", EVERY)[0]) == 2
    assert columns.ev()[1].tolist() == [0x0007C001]


def test_what_is_in_no_tunnel_keeps_its_path() -> None:
    """A mirror's own header is no path; an outer header inside it is one."""
    inner = bytes(rdma_write(6, MRC_WRITE))
    outer = struct.pack(">IHBB", 6 << 28, len(inner), 41, 63) + bytes(15) + b"\1"
    outer += bytes.fromhex("5f000000110021031101410100000000")
    mirrored = bytes(
        Ether(**MACS)
        / IP(src="192.0.2.1", dst="192.0.2.2")
        / UDP(dport=4789)
        / VXLAN(flags=8)
        / Ether(**MACS, type=0x86DD)
        / (outer + inner)
    )
    assert document(Case("x", mirrored, inner))["path"] == "p1l0>p1s3>p1l1>p1h1"


class TestRocev1:
    @pytest.mark.parametrize("opcode", [0x0A, 0x04, 0x11, 0x64])
    def test_is_read_without_udp(self, opcode: int) -> None:
        data = rocev1(opcode)
        columns = columns_of(pcap([data]))
        assert not columns.slow
        assert columns.icrc.tolist() == [RIGHT]
        found = document(Case("rocev1", data, b""))
        assert [layer["layer"] for layer in found["layers"]][:3] == ["ether", "grh", "bth"]
        assert found["layers"][1]["fields"]["src"] == "fe80::1"
        assert (found["ev"], found["path"], found["malformed"]) == (None, None, None)

    def test_the_icrc_covers_the_gids_and_not_the_hop_limit(self) -> None:
        data = bytearray(rocev1(0x0A))
        for at, verdict in ((14 + 7, RIGHT), (14 + 20, WRONG)):
            other = bytearray(data)
            other[at] ^= 1
            assert columns_of(pcap([bytes(other)])).icrc.tolist() == [verdict]

    def test_the_icrc_by_hand(self) -> None:
        """IBTA A16: as over an LRH of ones; of the GRH traffic class, flow label and hop limit count as ones."""
        data = bytearray(rocev1(0x0A)[14:])
        sent = bytes(data[-4:])
        data[0] |= 0x0F
        for at in (1, 2, 3, 7, 44):
            data[at] = 0xFF
        assert zlib.crc32(b"\xff" * 8 + bytes(data[:-4])).to_bytes(4, "little") == sent

    def test_in_a_mirror(self) -> None:
        outer = Ether(**MACS) / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4789) / VXLAN(flags=8)
        columns = columns_of(pcap([bytes(outer / rocev1(0x0A))]))
        assert columns.icrc.tolist() == [RIGHT]
        assert Lines().lines(columns)[0].split()[2:4] == ["fe80::1", "fe80::2"]


def test_a_mirror_that_cuts_packets_is_no_fault_of_the_packet() -> None:
    found = document(Case("truncated", ERSPAN_2_TRUNCATED, b""))
    assert (found["malformed"], found["icrc_ok"]) == (None, None)
    assert found["layers"][-1] == {"layer": "payload", "length": 16}


@pytest.mark.parametrize("depth", [15, 40, 2000])
def test_nothing_is_too_deep(depth: int) -> None:
    frame = bytes(Ether(**MACS) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=9))
    labels = bytes(Ether(**MACS, type=0x8847)) + bytes(MPLS(s=0)) * depth + bytes(MPLS(s=1)) + frame[14:]
    tags = frame[:12] + bytes.fromhex("81000001") * depth + frame[12:]
    for data in (labels, tags):
        columns = columns_of(pcap([data]))
        assert columns.malformed == {}
        assert len(columns.walked(0).layers) <= 34
        assert bool(columns.has("udp")[0]) == (depth < 30)


def test_verbose_shows_what_is_inside(tmp_path: Path) -> None:
    few = [case for case in cases(RC_WRITE) if "-ipv4" in case.name and "vntag" not in case.name]
    (tmp_path / "few.pcapng").write_bytes(capture(few))
    shown = CliRunner().invoke(main, ["dissect", "--verbose", str(tmp_path / "few.pcapng")]).stdout
    assert shown.count("ICRC: right") == len(few)
    # Scapy does not know every one: type I of ERSPAN over IPv6, compressed PPP, some pseudowires.
    assert shown.count("###[ RETH ]###") > len(few) * 2 // 3


@st.composite
def damaged(draw: st.DrawFn) -> Case:
    case = draw(st.sampled_from(CASES))
    data = bytearray(case.data)
    for at in draw(st.lists(st.integers(0, min(120, len(data) - 1)), max_size=4)):
        data[at] = draw(st.integers(0, 255))
    end = draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    return Case(case.name, bytes(data[:end]), b"", case.link_type)


@settings(max_examples=draws(75))
@given(st.lists(damaged(), min_size=1, max_size=20))
def test_the_quick_way_and_the_slow_way_agree_whatever_the_bytes(found: list[Case]) -> None:
    columns = columns_of(capture(found))
    texts = documents(columns, np.arange(len(columns)))
    for row, (case, text) in enumerate(zip(found, texts, strict=True)):
        record = columns.frames.record(row)
        walked = walk(record.data, case.link_type, record.wire_length)
        read = json.loads(text)
        read.pop("fragments", None)
        assert read == json.loads(json.dumps(packet_document(row + 1, record, walked))), case.name
    assert len(Lines().lines(columns)) == len(found)


class TestTshark:
    pytestmark = needs_tshark

    def test_shows_the_same_inside(self, tmp_path: Path) -> None:
        tshark = Tshark(tmp_path)
        known = [case for case in CASES if case.name.partition("-")[0] not in TSHARK_GUESSES]
        path = tmp_path / "all.pcapng"
        path.write_bytes(capture(known))
        names = ("mrc.bth.psn", "mrc.icrc_ok", "mrc.icrc.crc", "mrc.ev", "mrc.malformed", "ip.src", "ipv6.src")
        standard = ("infiniband.bth.psn", "infiniband.invariant.crc", "infiniband.bth.destqp")
        rows = tshark.rows((*names, *standard), capture=path)
        assert len(rows) == len(known) > 150
        for case, row in zip(known, rows, strict=True):
            ours = document(case)
            (crc,) = (layer["fields"]["crc"] for layer in ours["layers"] if layer["layer"] == "icrc")
            innermost = row["ip.src" if case.inner[0] >> 4 == 4 else "ipv6.src"].split(",")[-1]
            assert innermost == ("10.0.0.1" if case.inner[0] >> 4 == 4 else "fd00::1")
            if case.opcode == MRC_WRITE:
                assert (row["mrc.icrc_ok"] in TRUE, row.get("mrc.malformed")) == (True, None), case.name
                assert (int(row["mrc.icrc.crc"], 0), int(row["mrc.ev"], 0)) == (crc, ours["ev"])
                assert row["mrc.bth.psn"] == "5"
            else:
                assert (row["infiniband.bth.psn"], int(row["infiniband.invariant.crc"], 0)) == ("5", crc), case.name

    def test_exports_what_is_read_the_same(self, tmp_path: Path) -> None:
        path = tmp_path / "all.pcapng"
        path.write_bytes(capture(cases(MRC_WRITE)))
        printed = Tshark(tmp_path).run("-r", str(path), "-T", "json", "-x")
        columns = columns_of(printed.encode())
        assert columns.frames.link_type.tolist() == columns_of(path.read_bytes()).frames.link_type.tolist()
        assert set(columns.icrc.tolist()) == {RIGHT}

    def test_shows_rocev1(self, tmp_path: Path) -> None:
        tshark = Tshark(tmp_path)
        tshark.capture.write_bytes(pcap([rocev1(0x0A)]))
        names = ("infiniband.grh.sgid", "infiniband.bth.psn", "infiniband.invariant.crc", "infiniband.reth.va")
        (row,) = tshark.rows(names)
        found = document(Case("rocev1", rocev1(0x0A), b""))
        fields = {layer["layer"]: layer.get("fields") for layer in found["layers"]}
        assert row["infiniband.grh.sgid"] == fields["grh"]["src"]
        assert int(row["infiniband.bth.psn"]) == fields["bth"]["psn"]
        assert int(row["infiniband.invariant.crc"], 0) == fields["icrc"]["crc"]
        assert int(row["infiniband.reth.va"], 0) == fields["reth"]["va"]

    def test_shows_a_mirror_that_cuts(self, tmp_path: Path) -> None:
        tshark = Tshark(tmp_path)
        tshark.capture.write_bytes(pcap([ERSPAN_2_TRUNCATED]))
        (row,) = tshark.rows(("mrc.bth.psn", "mrc.malformed", "mrc.icrc_ok", "mrc.payload.length"))
        assert row == {"mrc.bth.psn": "5", "mrc.payload.length": "16"}
