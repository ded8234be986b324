# SPDX-License-Identifier: BSD-2-Clause
"""The layers against packets other implementations made: Linux Soft-RoCE, tshark's reading, SRv6 captures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from packet_vectors import PACKETS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import PcapReader, wrpcap
from vector_forms import icrc_by_hand, ipv6_packet
from vectors import STANDARD_VECTORS

from mrc.layers import BTH, ICRC, Pad
from mrc.layers.icrc import check_icrc
from mrc.layers.segment_routing import SRHTLVHMAC
from mrc.wire.opcodes import OPCODES

COMPUTED = (
    (IP, "len"),
    (IP, "chksum"),
    (IPv6, "plen"),
    (UDP, "len"),
    (UDP, "chksum"),
    (BTH, "pad"),
    (Pad, "data"),
    (ICRC, "crc"),
)


@pytest.fixture(scope="module")
def frames(softroce_capture: Path) -> list[Packet]:
    with PcapReader(str(softroce_capture)) as reader:
        return list(reader)


def test_every_soft_roce_frame_dissects_with_a_right_icrc(frames: list[Packet]) -> None:
    assert len(frames) == 212
    for number, frame in enumerate(frames, 1):
        names = [OPCODES[frame[BTH].opcode].name, number]
        assert check_icrc(frame) is True, names
        header = frame[BTH].payload
        for expected in OPCODES[frame[BTH].opcode].headers:
            assert header.name.lower() == expected, names
            header = header.payload
    assert {IP in frame for frame in frames} == {True, False}
    assert len({frame[BTH].opcode for frame in frames}) == 14


def test_every_soft_roce_frame_is_rebuilt_from_what_is_not_computed(frames: list[Packet]) -> None:
    for number, frame in enumerate(frames, 1):
        stripped = frame.copy()
        for layer, field in COMPUTED:
            if layer in stripped:
                delattr(stripped[layer], field)
        assert bytes(stripped) == frame.original, f"frame {number}"


def test_the_icrc_worked_out_by_hand_is_soft_roces(frames: list[Packet]) -> None:
    """Ties the vectors' own CRC to the outside."""
    for frame in frames:
        packet = frame.original[14:]
        length = frame[IP].len if IP in frame else frame[IPv6].plen + 40
        assert icrc_by_hand(packet[: length - 4]) == packet[length - 4 : length]


def test_a_damaged_soft_roce_frame_has_a_wrong_icrc(frames: list[Packet]) -> None:
    for frame in frames[::20]:
        damaged = bytearray(frame.original)
        damaged[-1 if Pad not in frame else -5] ^= 1
        assert check_icrc(Ether(bytes(damaged))) is False


def test_external_captures_dissect_and_rebuild(
    external_captures: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    segments = 0
    for path in external_captures:
        with PcapReader(str(path)) as reader:
            capfd.readouterr()  # the reader itself speaks of an unknown link type
            for packet in reader:
                assert bytes(packet) == packet.original, path.name
                packet.show(dump=True)
                segments += IPv6ExtHdrSegmentRouting in packet
                assert capfd.readouterr() == ("", ""), path.name
    assert segments >= 6


def test_hmac_tlv_has_a_length_of_one_byte() -> None:
    """RFC 8754 section 2.1.2, the length as Linux counts it: 38 for a 32-byte HMAC."""
    tlv = SRHTLVHMAC(hmackeyid=0xAABBCCDD, hmac=bytes(range(32)))
    data = bytes.fromhex("0526 0000 aabbccdd") + bytes(range(32))
    assert bytes(tlv) == data
    header = IPv6ExtHdrSegmentRouting(addresses=["fc00::1"], tlv_objects=[tlv])
    built = bytes(header)
    assert len(built) == 8 + 16 + 40
    assert IPv6ExtHdrSegmentRouting(built).tlv_objects[0].hmac == bytes(range(32))
    assert built[24:] == data


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None and os.environ.get("CI") != "true", reason="tshark is not installed")
def test_tshark_reads_what_we_build(tmp_path: Path) -> None:
    """Standard opcodes, which tshark knows, and the whole stack of an SRv6 packet."""
    capture = tmp_path / "built.pcap"
    vectors = [vector for vector in STANDARD_VECTORS if vector.name.startswith("rc_")]
    ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    packets = [ether / IPv6(ipv6_packet(vector.transport)) for vector in vectors]
    srv6 = IPv6(PACKETS[3].packet)
    for layer, field in (*COMPUTED, (IPv6ExtHdrSegmentRouting, "len")):
        if layer in srv6:
            delattr(srv6[layer], field)
    wrpcap(str(capture), [*packets, ether / srv6])
    columns = ("frame.protocols", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn")
    fields = [word for column in (*columns, "infiniband.bth.padcnt") for word in ("-e", column)]
    command = ["tshark", "-r", str(capture), "-T", "fields", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(packets) + 1
    for line, vector in zip(lines, vectors, strict=False):
        bth = vector.layers[0]["fields"]
        protocols, *values = line.split("\t")
        assert "infiniband" in protocols
        assert [int(value, 0) for value in values] == [bth["opcode"], bth["dqp"], bth["psn"], bth["pad"]]
    assert lines[-1].startswith("eth:ethertype:ipv6:ipv6.routing:ipv6:udp")
