# SPDX-License-Identifier: BSD-2-Clause
"""What we read against what others read and made: Soft-RoCE, tshark, the Scapy layers, SRv6 captures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from capture_forms import on_ethernet, pcap
from packet_vectors import PACKETS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from vector_forms import ipv6_packet
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.summary import transport_words
from mrc.capture.transport import icrc_ok
from mrc.capture.walk import walk
from mrc.layers import ICRC, Pad, bind_to_udp
from mrc.layers.base import TransportHeader
from mrc.layers.bth import BTH
from mrc.layers.icrc import check_icrc

bind_to_udp()

ALL = (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)


def documents(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        return [
            packet_document(number, record, walk(record.data, record.link_type, record.wire_length))
            for number, record in enumerate(read_capture(stream, str(path)), 1)
        ]


def frames(path: Path) -> list[bytes]:
    with path.open("rb") as stream:
        return [record.data for record in read_capture(stream, str(path))]


def test_every_soft_roce_frame_is_whole_and_right(softroce_capture: Path) -> None:
    found = documents(softroce_capture)
    assert [packet["number"] for packet in found] == list(range(1, 213))
    for packet in found:
        assert (packet["icrc_ok"], packet["malformed"], packet["trimmed"]) == (True, None, False)
    assert len({packet["layers"][3]["fields"]["opcode"] for packet in found}) == 14
    assert {packet["layers"][1]["layer"] for packet in found} == {"ipv4", "ipv6"}


# tshark's name -> layer, field. Its values are decimal or 0x numbers, but for addresses.
TSHARK = {
    "frame.time_epoch": None,
    "eth.dst": ("ether", "dst"),
    "eth.src": ("ether", "src"),
    "eth.type": ("ether", "type"),
    "ip.dsfield": ("ipv4", "tos"),
    "ip.len": ("ipv4", "len"),
    "ip.id": ("ipv4", "id"),
    "ip.frag_offset": ("ipv4", "frag"),
    "ip.ttl": ("ipv4", "ttl"),
    "ip.proto": ("ipv4", "proto"),
    "ip.checksum": ("ipv4", "chksum"),
    "ip.src": ("ipv4", "src"),
    "ip.dst": ("ipv4", "dst"),
    "ipv6.tclass": ("ipv6", "tc"),
    "ipv6.flow": ("ipv6", "fl"),
    "ipv6.plen": ("ipv6", "plen"),
    "ipv6.nxt": ("ipv6", "nh"),
    "ipv6.hlim": ("ipv6", "hlim"),
    "ipv6.src": ("ipv6", "src"),
    "ipv6.dst": ("ipv6", "dst"),
    "udp.srcport": ("udp", "sport"),
    "udp.dstport": ("udp", "dport"),
    "udp.length": ("udp", "len"),
    "udp.checksum": ("udp", "chksum"),
    "infiniband.bth.opcode": ("bth", "opcode"),
    "infiniband.bth.padcnt": ("bth", "pad"),
    "infiniband.bth.tver": ("bth", "tver"),
    "infiniband.bth.p_key": ("bth", "pkey"),
    "infiniband.bth.destqp": ("bth", "dqp"),
    "infiniband.bth.psn": ("bth", "psn"),
    "infiniband.reth.va": ("reth", "va"),
    "infiniband.reth.r_key": ("reth", "rkey"),
    "infiniband.reth.dmalen": ("reth", "dmalen"),
    "infiniband.aeth.syndrome": ("aeth", "syndrome"),
    "infiniband.aeth.msn": ("aeth", "msn"),
    "infiniband.atomiceth.swapdt": ("atomiceth", "swap"),
    "infiniband.invariant.crc": None,
}
needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]


def tshark_rows(path: Path) -> list[dict[str, str]]:
    """The first occurrence of each field of TSHARK in each packet, where there is one."""
    columns = [word for name in TSHARK for word in ("-e", name)]
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "occurrence=f", *columns]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [dict(zip(TSHARK, line.split("\t"), strict=True)) for line in lines]
    return [{name: value for name, value in row.items() if value} for row in rows]


class TestTshark:
    pytestmark = needs_tshark

    def test_fields_are_tsharks(self, softroce_capture: Path) -> None:
        rows, found = tshark_rows(softroce_capture), documents(softroce_capture)
        assert len(rows) == len(found) == 212
        compared: dict[str, int] = {}
        for row, packet in zip(rows, found, strict=True):
            layers = {layer["layer"]: layer.get("fields", {}) for layer in packet["layers"]}
            for name, text in row.items():
                compared[name] = compared.get(name, 0) + 1
                if name == "frame.time_epoch":
                    assert float(packet["time"]) == float(text)
                    continue
                if name == "infiniband.invariant.crc":
                    # tshark shows the four bytes in wire order.
                    assert layers["icrc"]["crc"] == int(text, 0)
                    continue
                layer, field = TSHARK[name]
                # tshark has one name for the address and key of both headers.
                ours = layers[layer if layer in layers or layer != "reth" else "atomiceth"][field]
                theirs = text if isinstance(ours, str) else int(text, 0)
                assert ours == theirs, f"packet {packet['number']}: {name}"
        assert compared.keys() == TSHARK.keys()
        assert compared["infiniband.bth.psn"] == 212
        assert compared["infiniband.reth.va"] > 20
        assert compared["infiniband.aeth.msn"] > 50

    def test_times_of_a_nanosecond_capture_are_tsharks(self, tmp_path: Path) -> None:
        path = tmp_path / "ns.pcap"
        path.write_bytes(pcap([on_ethernet(PACKETS[1].packet)] * 3, nanoseconds=True))
        rows, found = tshark_rows(path), documents(path)
        assert [packet["time"] for packet in found] == [row["frame.time_epoch"] for row in rows]

    def test_the_outer_headers_are_tsharks_too(self, tmp_path: Path) -> None:
        path = tmp_path / "srv6.pcap"
        path.write_bytes(pcap([on_ethernet(packet.packet) for packet in PACKETS]))
        columns = ("ipv6.src", "ipv6.dst", "ipv6.plen", "ipv6.nxt", "ipv6.routing.srh.addr", "ipv6.routing.segleft")
        command = ["tshark", "-r", str(path), "-T", "fields", *(word for name in columns for word in ("-e", name))]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for line, packet in zip(lines, documents(path), strict=True):
            layers = packet["layers"]
            ips = [layer["fields"] for layer in layers if layer["layer"] == "ipv6"]
            routing = [layer["fields"] for layer in layers if layer["layer"] == "srh"]
            ours = [[ip[name] for ip in ips] for name in ("src", "dst", "plen", "nh")]
            ours += [[address for srh in routing for address in srh["segments"]], [srh["segleft"] for srh in routing]]
            assert [",".join(map(str, values)) for values in ours] == line.split("\t")


# Scapy's spelling of fields of its own headers.
SCAPY = {"srh": {"segments": "addresses"}, "ipv4": {}, "ipv6": {}, "udp": {}, "ether": {}}
SCAPY_CLASSES = {"ether": Ether, "ipv4": IP, "ipv6": IPv6, "udp": UDP, "srh": IPv6ExtHdrSegmentRouting}
# Scapy cuts the SRH's flags into bits.
NOT_IN_SCAPY = {("srh", "flags")}


def compare_with_scapy(frame: bytes, packet: dict[str, Any]) -> int:
    """Holds each field to the Scapy layers' reading of the same frame; how many fields there were."""
    layer: Any = Ether(frame)
    assert check_icrc(layer) is packet["icrc_ok"]
    count = 0
    for ours in packet["layers"]:
        name = ours["layer"]
        if name == "payload":
            assert type(layer) is Raw
            assert len(layer.load) == ours["length"]
        elif name == "icrc":
            layer = layer.payload if isinstance(layer, Pad) else layer
            assert type(layer) is ICRC
            assert layer.crc == ours["fields"]["crc"]
        else:
            expected = SCAPY_CLASSES.get(name)
            assert type(layer) is expected if expected else type(layer).__name__.lower() == name
            for field, value in ours["fields"].items():
                if (name, field) in NOT_IN_SCAPY:
                    continue
                theirs = layer.getfieldval(SCAPY.get(name, {}).get(field, field))
                if isinstance(theirs, bytes):
                    theirs = int.from_bytes(theirs, "big")
                theirs = theirs if isinstance(value, str | list) else int(theirs)
                assert theirs == value, f"{name}.{field}"
                count += 1
        layer = layer.payload
        if isinstance(layer, Pad) and name == "payload":
            layer = layer.payload
    return count


def test_fields_are_the_scapy_layers(softroce_capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "vectors.pcap"
    packets = [ipv6_packet(vector.transport) for vector in ALL] + [packet.packet for packet in PACKETS]
    path.write_bytes(pcap([on_ethernet(packet) for packet in packets]))
    fields = 0
    for capture in (softroce_capture, path):
        for frame, packet in zip(frames(capture), documents(capture), strict=True):
            fields += compare_with_scapy(frame, packet)
    assert fields > 7000


def _udp_on_srh() -> bytes:
    """No inner IP header: UDP on the segment routing header itself."""
    built = (
        IPv6(src="fd00::1", dst="5f00:0:1100::", tc=0x12)
        / IPv6ExtHdrSegmentRouting(addresses=["fd00::2"], segleft=1, lastentry=0)
        / UDP(sport=3)
        / BTH(psn=9, opcode=0xD1)
        / Raw(b"\x1f\0\0\1")
    )
    return bytes(built)


def test_the_icrc_over_a_segment_routing_header_is_the_layers() -> None:
    packet = _udp_on_srh()
    verdicts = []
    # Traffic class, flow label, hop limit; addresses; tag and segment; UDP ports but the destination's; checksum; BTH.
    for at in (1, 2, 3, 7, *range(8, 40), *range(46, 66), 70, 71, *range(76, len(packet))):
        damaged = bytearray(packet)
        damaged[at] ^= 0x01
        data = bytes(damaged)
        verdicts.append(icrc_ok(walk(data, 229, len(data))))
        assert verdicts[-1] is check_icrc(IPv6(data)), at
    assert (verdicts.count(True), verdicts.count(None)) == (7, 0)


def test_words_are_those_of_the_layers_summaries(softroce_capture: Path) -> None:
    packets = [(ipv6_packet(vector.transport), 229) for vector in ALL] + [(packet.packet, 101) for packet in PACKETS]
    packets += [(frame, 1) for frame in frames(softroce_capture)]
    for data, link_type in packets:
        layer: Packet = Ether(data) if link_type == 1 else (IP if data[0] >> 4 == 4 else IPv6)(data)
        assert isinstance(layer[BTH], TransportHeader)
        assert transport_words(walk(data, link_type, len(data))) == layer[BTH].mysummary()[0]


def test_external_captures_are_read(external_captures: list[Path]) -> None:
    by_name = {path.stem: documents(path) for path in external_captures}
    assert all(by_name.values())
    whole = [packet["malformed"] for name, found in by_name.items() for packet in found if "trunc" not in name]
    assert whole.count(None) == len(whole) - 1
    assert by_name["tcpdump-ipv6-rthdr-oobr"][0]["malformed"].startswith("cut_short: ")
    assert by_name["tcpdump-ipv6-srh-tlv-pad1-padn-5-trunc"][0]["malformed"].startswith("cut_short: ")

    def names(found: dict[str, Any]) -> list[str]:
        return [layer["layer"] for layer in found["layers"]]

    assert names(by_name["6in6in6"][0]) == ["ether", "ipv6", "ipv6", "ipv6", "udp", "payload"]
    assert names(by_name["xdp2-srv6-end-64"][0]) == ["ether", "ipv6", "srh", "ipv6", "udp", "payload"]
    assert by_name["xdp2-srv6-end-64"][0]["layers"][-1] == {"layer": "payload", "length": 16}
    assert by_name["tcpdump-ipv6-srh-insert-cksum"][0]["layers"][2]["fields"]["segments"] == [
        "b2::2",
        "3::d6",
        "2::f1:0",
    ]
