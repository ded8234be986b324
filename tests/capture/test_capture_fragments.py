# SPDX-License-Identifier: BSD-2-Clause
"""IP fragments put together, of both families, in any order and inside tunnels; and what is not put together."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from capture_forms import START_S, pcap
from encapsulations import MACS, OUTER, rdma_write
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import GRE, Ether
from scapy.layers.vxlan import VXLAN
from test_capture_wireshark import TRUE, Tshark

from mrc.capture import fragments
from mrc.capture.columns import NOT_THERE, RIGHT, Columns, read_columns
from mrc.capture.columns.documents import documents
from mrc.capture.columns.lines import Lines
from mrc.capture.files import read_frames
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

MRC_WRITE, RC_WRITE = 0xCA, 0x0A


needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]


def framed(packet: bytes) -> bytes:
    return bytes(Ether(**MACS, type=0x86DD if packet[0] >> 4 == 6 else 0x0800) / packet)


def fragments_of_ipv4(packet: IP, identification: int, size: int = 24) -> list[bytes]:
    packet = packet.copy()
    packet.flags, packet.id = 0, identification
    return [bytes(part) for part in fragment(IP(bytes(packet)), fragsize=size)]


def fragments_of_ipv6(packet: IPv6, identification: int, size: int = 24, options: bool = False) -> list[bytes]:
    """Those of an IPv6 packet without extension headers, which get `options` in front of the fragment header."""
    whole = bytes(packet)
    found = []
    for at in range(40, len(whole), size):
        head = IPv6(src=packet.src, dst=packet.dst, tc=IPv6(whole).tc, fl=packet.fl, hlim=packet.hlim)
        if options:
            head /= IPv6ExtHdrDestOpt()
        more = int(at + size < len(whole))
        header = IPv6ExtHdrFragment(id=identification, offset=(at - 40) // 8, m=more, nh=whole[6])
        found.append(bytes(head / header / whole[at : at + size]))
    return found


def fragmented(version: int, opcode: int, identification: int = 7, psn: int = 5) -> list[bytes]:
    packet = rdma_write(version, opcode, psn)
    if version == 4:
        packet.flags, packet.id = 0, identification
        del packet.chksum
        return fragments_of_ipv4(packet, identification)
    return fragments_of_ipv6(packet, identification)


def columns_of(packets: Sequence[bytes]) -> Columns:
    (columns,) = read_columns(io.BytesIO(pcap(packets)), "it")
    return columns


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("opcode", [MRC_WRITE, RC_WRITE])
class TestPutTogether:
    def test_in_any_order(self, version: int, opcode: int) -> None:
        parts = [framed(part) for part in fragmented(version, opcode)]
        assert len(parts) >= 3
        for order in itertools.islice(itertools.permutations(range(len(parts))), 24):
            columns = columns_of([parts[at] for at in order])
            assert columns.icrc.tolist() == [NOT_THERE] * (len(parts) - 1) + [RIGHT]
            assert columns.values("bth", "psn")[1].tolist() == [5]
            assert columns.malformed == {}
            (document,) = documents(columns, np.array([len(parts) - 1]))
            assert json.loads(document)["fragments"] == list(range(1, len(parts) + 1))

    def test_is_the_packet_before_it_was_cut(self, version: int, opcode: int) -> None:
        parts = [framed(part) for part in fragmented(version, opcode)]
        columns = columns_of(parts)
        record = columns.frames.record(len(parts) - 1)
        packet = rdma_write(version, opcode)
        if version == 4:
            packet.flags, packet.id = 0, 7
        assert record.data == framed(bytes(packet))
        assert record.wire_length == len(parts[-1])
        assert (record.time_ns or 0) // 1_000_000_000 == START_S + len(parts) - 1

    def test_of_many_mixed_up_with_copies(self, version: int, opcode: int) -> None:
        many = [framed(part) for psn in range(20) for part in fragmented(version, opcode, 100 + psn, psn)]
        mixed = many + random.Random(3).sample(many, 15)
        random.Random(5).shuffle(mixed)
        columns = columns_of(mixed)
        psns = columns.values("bth", "psn")[1].tolist()
        assert sorted(set(psns)) == list(range(20))
        assert len(psns) == 20
        assert (columns.icrc == RIGHT).sum() == 20

    def test_in_a_tunnel_and_of_one(self, version: int, opcode: int) -> None:
        vxlan = Ether(**MACS) / IP(**OUTER) / UDP(sport=9, dport=4789) / VXLAN(vni=1, flags=8)
        inside = [bytes(vxlan / framed(part)) for part in fragmented(version, opcode)]
        mirror = IP(**OUTER) / GRE(proto=0x88BE) / framed(bytes(rdma_write(version, opcode)))
        around = [framed(part) for part in fragments_of_ipv4(mirror, 9, 40)]
        # A mirrored fragment, in fragments.
        both = [
            framed(part)
            for number, one in enumerate(fragmented(version, opcode))
            for part in fragments_of_ipv4(IP(**OUTER) / GRE(proto=0x88BE) / framed(one), 50 + number, 40)
        ]
        for parts in (inside, around, both):
            columns = columns_of(parts)
            assert columns.values("bth", "psn")[1].tolist() == [5]
            assert columns.icrc.tolist()[-1] == RIGHT
            assert columns.malformed == {}

    def test_over_two_runs(self, version: int, opcode: int) -> None:
        parts = [framed(part) for part in fragmented(version, opcode)]
        other = framed(bytes(rdma_write(6, MRC_WRITE)))
        runs = list(read_columns(io.BytesIO(pcap([parts[0], *[other] * 9000, *parts[1:]])), "it"))
        assert len(runs) > 1
        last = runs[-1]
        assert last.icrc.tolist()[-1] == RIGHT
        assert last.walked(len(last) - 1).fragments[0] == 1


def test_options_before_the_fragment_header_stay() -> None:
    parts = [framed(part) for part in fragments_of_ipv6(rdma_write(6, MRC_WRITE), 3, options=True)]
    columns = columns_of(parts)
    assert columns.icrc.tolist()[-1] != NOT_THERE
    assert columns.values("bth", "psn")[1].tolist() == [5]
    record = columns.frames.record(len(parts) - 1)
    packet = IPv6(record.data[14:])
    assert (packet.nh, packet[IPv6ExtHdrDestOpt].nh, packet.plen) == (60, 17, len(record.data) - 54)


class TestNotPutTogether:
    def test_without_one_of_them(self) -> None:
        parts = [framed(part) for part in fragmented(4, MRC_WRITE)]
        columns = columns_of([*parts[:1], *parts[2:]])
        assert not columns.has("bth").any()
        assert next(iter(Lines().lines(columns))).split(maxsplit=5)[5] == "fragment of UDP Len=24"

    def test_what_the_capture_cut(self) -> None:
        parts = [framed(part) for part in fragmented(6, MRC_WRITE)]
        (columns,) = read_columns(io.BytesIO(pcap(parts, missing=4)), "it")
        assert not columns.has("bth").any()

    def test_what_contradicts_itself_but_what_follows_is(self) -> None:
        """The identification was used again before the first datagram was whole."""
        one, other = fragmented(4, MRC_WRITE, 7, psn=1), fragmented(4, MRC_WRITE, 7, psn=2)
        columns = columns_of([framed(part) for part in (*one[:-1], *other)])
        assert columns.values("bth", "psn")[1].tolist() == [2]
        assert columns.icrc.tolist()[-1] == RIGHT

    def test_of_other_addresses_or_identifications(self) -> None:
        one, other = fragmented(6, MRC_WRITE, 7), fragmented(6, MRC_WRITE, 8)
        assert not columns_of([framed(part) for part in (*one[:-1], other[-1])]).has("bth").any()

    def test_more_than_there_is_room_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fragments, "MOST_DATAGRAMS", 10)
        sent = [fragmented(4, MRC_WRITE, number) for number in range(30)]
        firsts = [framed(parts[0]) for parts in sent]
        rests = [framed(part) for parts in reversed(sent) for part in parts[1:]]
        waiting = fragments.Fragments()
        columns = Columns(
            next(read_frames(io.BytesIO(pcap([*firsts, *rests])), "it")), 1, DEFAULT_WIRE_PROFILE, waiting
        )
        assert len(columns.values("bth", "psn")[1]) >= 9
        assert len(waiting._waiting) <= 10
        assert waiting._bytes == sum(datagram.size for datagram in waiting._waiting.values())


class TestTshark:
    pytestmark = needs_tshark

    def test_puts_the_same_together(self, tmp_path: Path) -> None:
        vxlan = Ether(**MACS) / IP(**OUTER) / UDP(sport=9, dport=4789) / VXLAN(vni=1, flags=8)
        packets: list[bytes] = []
        for number, (version, opcode) in enumerate(itertools.product((4, 6), (MRC_WRITE, RC_WRITE))):
            packets += [framed(part) for part in fragmented(version, opcode, 10 + number)]
            packets += [bytes(vxlan / framed(part)) for part in fragmented(version, opcode, 20 + number)]
            mirror = IP(**OUTER) / GRE(proto=0x88BE) / framed(bytes(rdma_write(version, opcode)))
            packets += [framed(part) for part in fragments_of_ipv4(mirror, 30 + number, 40)]
        tshark = Tshark(tmp_path)
        tshark.capture.write_bytes(pcap(packets))
        names = ("frame.number", "mrc.bth.psn", "mrc.icrc_ok", "mrc.malformed", "mrc.ev")
        standard = ("infiniband.bth.psn", "infiniband.invariant.crc")
        columns = columns_of(packets)
        found = [json.loads(text) for text in documents(columns, np.arange(len(packets)))]
        compared = 0
        for row, ours in zip(tshark.rows((*names, *standard)), found, strict=True):
            layers = {layer["layer"]: layer.get("fields", {}) for layer in ours["layers"]}
            assert ("mrc.bth.psn" in row or "infiniband.bth.psn" in row) == ("bth" in layers)
            if "mrc.bth.psn" in row:
                assert (row["mrc.icrc_ok"] in TRUE, row.get("mrc.malformed")) == (ours["icrc_ok"], None) == (True, None)
                assert int(row["mrc.ev"], 0) == ours["ev"]
                compared += 1
            elif "infiniband.bth.psn" in row:
                assert int(row["infiniband.invariant.crc"], 0) == layers["icrc"]["crc"]
                compared += 1
        assert compared == 12
