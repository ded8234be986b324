# SPDX-License-Identifier: BSD-2-Clause
"""Every packet of every capture: dissected, freed of what is computed, built again, the same bytes.

What is computed: lengths, header checksums, padding and its count, ICRC; and of an MRC packet the opcode where it is a
whole message or control, ts, the traffic class a sender writes, PSN of SACK and NACK, dpdcid, DMALen of a message.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from packet_vectors import PACKETS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Packet
from scapy.utils import PcapReader

from mrc.layers import BTH, ICRC, NETH, PETH, RETH, SETH, Pad, check_icrc
from mrc.wire.opcodes import OPCODES

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = sorted(path for path in (ROOT / "pcaps").iterdir() if {".pcap", ".pcapng"} & set(path.suffixes))
# Section 12: DSCP 4 and 8 with ECT(0), DSCP 46 without ECN.
SENT_CLASSES = {4 << 2 | 2, 8 << 2 | 2, 46 << 2}
TRIMMED_DSCPS = (12, 16)


def ip_headers(packet: Packet) -> list[Packet]:
    return [layer for layer in packet.iterpayloads() if type(layer) in (IP, IPv6)]


def is_trimmed(packet: Packet) -> bool:
    classes = [header.tos if type(header) is IP else header.tc for header in ip_headers(packet)]
    return ICRC not in packet and any(value >> 2 in TRIMMED_DSCPS for value in classes)


def drop(layer: Packet | None, dropped: Counter[str], *names: str) -> None:
    for name in names if layer is not None else ():
        assert layer is not None
        delattr(layer, name)
        assert name not in layer.fields
        dropped[f"{type(layer).__name__}.{name}"] += 1


def without_computed(packet: Packet, dropped: Counter[str]) -> Packet:
    stripped = packet.copy()
    headers = ip_headers(stripped)
    trimmed = is_trimmed(packet)
    for number, header in enumerate(headers):
        # A trimming switch rewrites the outermost length only.
        if number == 0 or not trimmed:
            drop(header, dropped, *(("len", "chksum") if type(header) is IP else ("plen",)))
    drop(stripped.getlayer(IPv6ExtHdrSegmentRouting), dropped, "len", "lastentry")
    if not trimmed:
        drop(stripped.getlayer(UDP), dropped, "len")
    bth = stripped.getlayer(BTH)
    if bth is None:
        return stripped
    drop(stripped[UDP], dropped, "chksum", "dport")
    opcode = OPCODES.get(bth.opcode)
    if not trimmed:
        drop(bth, dropped, "pad")
        drop(stripped.getlayer(Pad), dropped, "data")
        if check_icrc(packet):
            drop(stripped.getlayer(ICRC), dropped, "crc")
        if opcode is not None and opcode.is_mrc and ((opcode.starts and opcode.ends) or not opcode.has_payload):
            drop(bth, dropped, "opcode")
            drop(stripped.getlayer(RETH), dropped, "dmalen")
        for header in headers:
            name = "tos" if type(header) is IP else "tc"
            if opcode is not None and opcode.is_mrc and getattr(header, name) in SENT_CLASSES:
                drop(header, dropped, name)
    if opcode is not None and opcode.is_mrc:
        drop(bth, dropped, "ts")
        for kind in (SETH, NETH, PETH):
            drop(stripped.getlayer(kind), dropped, "dpdcid")
        if stripped.haslayer(SETH) or stripped.haslayer(NETH):
            drop(bth, dropped, "psn")
    return stripped


def check_all(path: Path) -> Counter[str]:
    dropped: Counter[str] = Counter()
    with PcapReader(str(path)) as reader:
        packets = list(reader)
    assert packets
    for number, packet in enumerate(packets, 1):
        assert bytes(without_computed(packet, dropped)) == packet.original, f"{path.name}, packet {number}"
    return dropped


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_every_packet_is_rebuilt_from_what_is_not_computed(path: Path) -> None:
    dropped = check_all(path)
    assert dropped["ICRC.crc"]
    assert dropped["BTH.pad"]


def test_the_shared_capture_too(softroce_capture: Path) -> None:
    assert check_all(softroce_capture)["ICRC.crc"] == 212


def test_the_captures_of_our_own_have_every_computed_field() -> None:
    """So that the test above says something: each kind of field is dropped somewhere."""
    dropped: Counter[str] = Counter()
    for path in CAPTURES:
        if path.name.startswith("mrc-tour"):
            dropped += check_all(path)
    assert {
        *("IPv6.plen", "IPv6.tc", "UDP.len", "UDP.chksum", "UDP.dport"),
        *("BTH.pad", "BTH.opcode", "BTH.ts", "BTH.psn", "ICRC.crc"),
        *("SETH.dpdcid", "NETH.dpdcid", "PETH.dpdcid"),
    } <= set(dropped)


@pytest.mark.parametrize("vector", PACKETS, ids=[packet.name for packet in PACKETS])
def test_packets_worked_out_by_hand(vector: Packet) -> None:
    packet = (IP if vector.packet[0] >> 4 == 4 else IPv6)(vector.packet)
    dropped: Counter[str] = Counter()
    assert bytes(without_computed(packet, dropped)) == vector.packet
    assert dropped


def test_a_new_tour_is_rebuilt_too(tmp_path: Path) -> None:
    """The tool that made the captures, with other chances and whatever the endpoint does today."""
    tool = [sys.executable, str(ROOT / "tools" / "make-tour"), "--seed", "77", "--dir", str(tmp_path)]
    subprocess.run(tool, check=True, capture_output=True)
    paths = sorted(tmp_path.glob("*.pcap"))
    assert [path.name for path in paths] == ["mrc-tour-receiver.pcap", "mrc-tour-sender.pcap"]
    assert all(check_all(path)["ICRC.crc"] > 50 for path in paths)
    first = [path.read_bytes() for path in paths]
    subprocess.run(tool, check=True, capture_output=True)
    assert [path.read_bytes() for path in paths] == first, "one seed makes the same bytes each time"


def test_the_tour_shows_what_its_readme_says() -> None:
    """pcaps/README.md: losses, marks, trims, probes, a port that goes and comes, a write with immediate."""
    seen: Counter[int] = Counter()
    for role in ("sender", "receiver"):
        with PcapReader(str(ROOT / "pcaps" / f"mrc-tour-{role}.pcap")) as reader:
            packets = list(reader)
        assert all(check_icrc(packet) for packet in packets if not is_trimmed(packet))
        seen.update(packet[BTH].opcode for packet in packets)
        if role == "receiver":
            assert any(is_trimmed(packet) for packet in packets)
            assert any(packet[IPv6].tc & 3 == 3 for packet in packets), "marked on the way"
            assert any(packet[BTH].rtx for packet in packets)
    # All but the whole-message writes.
    assert set(seen) == {0xC6, 0xC7, 0xC8, 0xC9, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE}
