# SPDX-License-Identifier: BSD-2-Clause
"""Packets as layers: the vectors on every link type, and one case for each thing that can be wrong with a packet."""

from __future__ import annotations

from typing import Any

import pytest
from capture_forms import ETHER, on_ethernet
from packet_vectors import PACKETS, PacketVector
from vector_forms import Layers, Vector, crc32_bit_by_bit, ipv6_packet, octets
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.capture.fields import packet_document
from mrc.capture.frames import Record
from mrc.capture.walk import walk
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

ALL = (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)
BY_NAME = {packet.name: packet for packet in PACKETS}
SRV6 = BY_NAME["srv6_write"].packet
MACS = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}
# MRC's opcodes by the names of wire.md section 2, RoCEv2's with their transport in front.
NAMES = {
    0x0B: "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE",
    0x0C: "RC_RDMA_READ_REQUEST",
    0x12: "RC_ATOMIC_ACKNOWLEDGE",
    0x13: "RC_CMP_AND_SWAP",
    0x17: "RC_SEND_ONLY_WITH_INVALIDATE",
    0x65: "UD_SEND_ONLY_WITH_IMMEDIATE",
    0x44: "RD_SEND_ONLY",
    0x81: "CNP",
    0xAA: "XRC_RDMA_WRITE_ONLY",
    0xC6: "WRITE_FIRST",
    0xC7: "WRITE_MIDDLE",
    0xC8: "WRITE_LAST",
    0xC9: "WRITE_LAST_WITH_IMMEDIATE",
    0xCA: "WRITE_ONLY",
    0xCB: "WRITE_ONLY_WITH_IMMEDIATE",
    0xD1: "ACKNOWLEDGE",
    0xD8: "ENDPOINT_REQUEST",
    0xD9: "ENDPOINT_RESPONSE",
    0xDC: "SACK",
    0xDD: "NACK",
    0xDE: "PROBE",
}
every_vector = pytest.mark.parametrize("vector", ALL, ids=[vector.name for vector in ALL])
every_packet = pytest.mark.parametrize("packet", PACKETS, ids=[packet.name for packet in PACKETS])


def document(
    data: bytes, link_type: int = 1, wire_length: int | None = None, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> dict[str, Any]:
    record = Record(1_500_000_000_250_000_000, data, len(data) if wire_length is None else wire_length, link_type)
    return packet_document(7, record, walk(data, link_type, record.wire_length, profile), profile)


def names(found: dict[str, Any]) -> list[str]:
    return [layer["layer"] for layer in found["layers"]]


def rest_of(vector: Vector, packet: bytes) -> Layers:
    """What follows the headers: the payload without its padding, and the ICRC."""
    payload: Layers = [{"layer": "payload", "length": len(vector.payload)}] if vector.payload else []
    crc = {"layer": "icrc", "fields": {"crc": int.from_bytes(packet[-4:], "big")}}
    return [*payload, crc]


def about(vector: Vector) -> dict[str, Any]:
    """Of an MRC packet its EV, by wire.md section 10 the flow label 0x100 over the source port 3; no other has one."""
    opcode = vector.layers[0]["fields"]["opcode"]
    mrc = opcode >= 0xC0
    return {
        "ev": 0x0100_0003 if mrc else None,
        "path": "EV=0x01000003" if mrc else None,
        "opcode_name": NAMES[opcode],
    }


def below(packet: PacketVector) -> Layers:
    """The layers under the BTH, with the two fields the vectors leave to the reader of their bytes."""
    layers = [{"layer": layer["layer"], "fields": dict(layer["fields"])} for layer in packet.layers]
    if layers[0]["layer"] == "ipv4":
        layers[0]["fields"] |= {"flags": 2, "frag": 0}
    return layers


@every_vector
def test_a_vector_over_ethernet(vector: Vector) -> None:
    """MRC-WIRE-01, MRC-NAME-01, MRC-NAME-02, MRC-NAME-03, MRC-NAME-04, MRC-NAME-07, MRC-NAME-08, MRC-NAME-09,
    MRC-NAME-10.
    """
    packet = ipv6_packet(vector.transport)
    length = len(packet) - 40
    ip = {"tc": 0x12, "fl": 0x100, "plen": length, "nh": 17, "hlim": 64, "src": "fc00::1", "dst": "fc00::2"}
    assert document(on_ethernet(packet)) == {
        "number": 7,
        "time": "1500000000.250000000",
        "length": 14 + len(packet),
        **about(vector),
        "layers": [
            {"layer": "ether", "fields": {**MACS, "type": 0x86DD}},
            {"layer": "ipv6", "fields": ip},
            {"layer": "udp", "fields": {"sport": 3, "dport": 4791, "len": length, "chksum": 0}},
            *vector.layers,
            *rest_of(vector, packet),
        ],
        "icrc_ok": True,
        "malformed": None,
        "trimmed": False,
    }


@every_packet
@pytest.mark.parametrize("link_type", [12, 101, 228, 229])
def test_a_whole_packet_as_raw_ip(packet: PacketVector, link_type: int) -> None:
    """MRC-NAME-02, MRC-NAME-06."""
    found = document(packet.packet, link_type)
    if packet.trimmed:
        # The BTH and the 8 bytes after it: METH and TSETH.
        assert found["layers"] == [*below(packet), *packet.vector.layers[:3]]
        assert (found["icrc_ok"], found["malformed"], found["trimmed"]) == (None, None, True)
    else:
        assert found["layers"] == [*below(packet), *packet.vector.layers, *rest_of(packet.vector, packet.packet)]
        assert (found["icrc_ok"], found["malformed"], found["trimmed"]) == (True, None, False)


_SLL = octets("0004 0001 0006 020000000001 0000 86dd")  # to us: 4; ARPHRD 1; address length 6, address; protocol
_SLL2 = octets("86dd 0000 00000003 0001 04 06 0200000000010000")  # protocol; index 3; ARPHRD 1; type 4; length 6
_QINQ = ETHER + octets("88a8 6007 8100 b064 86dd")  # PCP 3, VID 7; PCP 5, DEI 1, VID 100


@pytest.mark.parametrize(
    ("head", "link_type", "layers"),
    [
        (_SLL, 113, [{"layer": "sll", "fields": {"protocol": 0x86DD}}]),
        (_SLL2, 276, [{"layer": "sll", "fields": {"protocol": 0x86DD}}]),
        (
            _QINQ,
            1,
            [
                {"layer": "ether", "fields": {**MACS, "type": 0x88A8}},
                {"layer": "vlan", "fields": {"vid": 7, "pcp": 3, "type": 0x8100}},
                {"layer": "vlan", "fields": {"vid": 100, "pcp": 5, "type": 0x86DD}},
            ],
        ),
    ],
)
def test_other_links(head: bytes, link_type: int, layers: Layers) -> None:
    """MRC-NAME-02."""
    found = document(head + SRV6, link_type)
    assert found["layers"][: len(layers)] == layers
    assert found["layers"][len(layers) :] == document(SRV6, 229)["layers"]
    assert found["icrc_ok"] is True


def test_link_padding_is_neither_payload_nor_icrc() -> None:
    acknowledge = BY_NAME["ipv4_acknowledge"]
    found = document(on_ethernet(acknowledge.packet) + b"\xee" * 12)
    assert found["layers"][1:] == [*below(acknowledge), *acknowledge.vector.layers, *rest_of(
        acknowledge.vector, acknowledge.packet)]  # fmt: skip
    assert found["icrc_ok"] is True


def _nested(depth: int, inner: bytes) -> bytes:
    for _ in range(depth):
        inner = octets("60000000") + len(inner).to_bytes(2, "big") + octets("2940") + bytes(32) + inner
    return inner


@pytest.mark.parametrize("depth", [1, 2, 7, 1500])
def test_ipv6_in_ipv6_to_any_depth(depth: int) -> None:
    found = document(_nested(depth, BY_NAME["ipv6_write"].packet), 229)
    assert names(found)[: depth + 2] == ["ipv6"] * (depth + 1) + ["udp"]
    assert (found["icrc_ok"], found["malformed"]) == (True, None)


def test_extension_headers_without_a_name_are_passed_over() -> None:
    packet = BY_NAME["ipv6_write"].packet
    # Hop-by-hop (43 = 2b next), routing type 0 (60 = 3c next), destination options (44 = 2c next), atomic fragment.
    options = octets("2b00 010400000000  3c00 0000 00000000  2c00 010400000000  1100 0000 00000001")
    length = (len(packet) - 40 + len(options)).to_bytes(2, "big")
    found = document(packet[:4] + length + b"\0" + packet[7:40] + options + packet[40:], 229)
    assert names(found) == ["ipv6", "udp", "bth", "meth", "tseth", "reth", "payload", "icrc"]
    # They count in the ICRC, which was made without them.
    assert (found["icrc_ok"], found["malformed"]) == (False, None)


@pytest.mark.parametrize(
    ("packet", "expected", "length"),
    [
        (octets("60000000 0010 2c 40") + bytes(32) + octets("1100 0001 00000001") + bytes(8), ["ipv6"], 16),
        (octets("45000020 0000 2000 4011 0000 c0000201 c0000202") + bytes(12), ["ipv4"], 12),
        (octets("45000020 0000 0001 4011 0000 c0000201 c0000202") + bytes(12), ["ipv4"], 12),
        (octets("60000000 000a 06 40") + bytes(32) + bytes(10), ["ipv6"], 10),
        (octets("60000000 000a 11 40") + bytes(32) + octets("12b7 0035 000a 0000 abcd"), ["ipv6", "udp"], 2),
        (octets("60000000 0000 3b 40") + bytes(32), ["ipv6"], 0),
    ],
)
def test_what_is_not_followed_is_payload(packet: bytes, expected: list[str], length: int) -> None:
    """Fragments, another protocol, another port (4791 as the source port only), nothing at all."""
    found = document(packet, 101)
    assert names(found) == [*expected, *(["payload"] if length else [])]
    assert found["layers"][-1].get("length", 0) == length
    assert (found["icrc_ok"], found["malformed"]) == (None, None)


@pytest.mark.parametrize("port", [4791, 4971])
def test_the_destination_port_decides(port: int) -> None:
    assert document(ipv6_packet(VECTORS[0].transport, dport=port), 229)["icrc_ok"] is True
    only = WireProfile(accepted_udp_ports=(4791,))
    found = document(ipv6_packet(VECTORS[0].transport, sport=4791, dport=port), 229, profile=only)
    assert ("bth" in names(found)) == (port == 4791)


def test_wire_profile_switches() -> None:
    vector = next(vector for vector in VECTORS if vector.name == "write_middle_retransmitted_m")
    other = WireProfile(solicited_event_first=False)
    bth = document(ipv6_packet(vector.transport), 229, profile=other)["layers"][2]["fields"]
    assert (bth["se"], bth["m"]) == (1, 0)
    outer = WireProfile(icrc_covers_outer=True)
    assert document(SRV6, 229, profile=outer)["icrc_ok"] is False
    masked = bytearray(SRV6[:-4])
    for at in (0, 40):
        masked[at] |= 0x0F
        masked[at + 1] = masked[at + 2] = masked[at + 3] = masked[at + 7] = 0xFF
    masked[80 + 6] = masked[80 + 7] = masked[80 + 12] = 0xFF
    crc = crc32_bit_by_bit(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")
    assert document(SRV6[:-4] + crc, 229, profile=outer)["icrc_ok"] is True


def test_a_flipped_bit_is_a_wrong_icrc_where_it_counts() -> None:
    for at in range(len(SRV6)):
        damaged = bytearray(SRV6)
        damaged[at] ^= 0x08
        found = document(bytes(damaged), 229)
        if at < 40:
            # Not covered, but some of its fields say how to go on.
            continue
        # Traffic class, flow label and hop limit; UDP checksum; reserved byte of the BTH.
        free = at in (40, 41, 42, 43, 47) or at in (86, 87, 92)
        assert found["icrc_ok"] in ((True,) if free else (False, None)), at


SHORT = ipv6_packet(VECTORS[2].transport)  # 40 + 8, BTH 12, METH 4, RETH 16, payload 88, ICRC 4: 172


@pytest.mark.parametrize(
    ("data", "wire_length", "reason", "expected"),
    [
        (b"", 0, "short_header: ipv6 takes 40 bytes, 0 are left", []),
        (SHORT[:39], None, "short_header: ipv6 takes 40 bytes, 39 are left", ["payload"]),
        (b"\x50" + SHORT[1:], None, "bad_version: 5 where an IPv6 header should begin", ["payload"]),
        (SHORT[:46], None, "short_header: udp takes 8 bytes, 6 are left", ["ipv6", "payload"]),
        (SHORT[:-1], None, "short_packet: 1 bytes less than the IPv6 length says", ["bth", "meth", "reth", "payload"]),
        (SHORT[:70], None, "short_packet: 102 bytes less than the IPv6 length says", ["bth", "meth", "payload"]),
        (SHORT[:39], 172, "cut_short: the capture kept 39 bytes of ipv6, it takes 40", ["payload"]),
        (SHORT[:55], 172, "cut_short: the capture kept 7 bytes of bth, it takes 12", ["udp", "payload"]),
        (SHORT[:70], 172, "cut_short: the capture kept 22 bytes of headers, they take 32", ["bth", "meth", "payload"]),
        (SHORT[:80], 172, None, ["bth", "meth", "reth", "payload"]),
        (SHORT[:171], 172, None, ["bth", "meth", "reth", "payload"]),
    ],
)
def test_what_is_missing_is_said(data: bytes, wire_length: int | None, reason: str | None, expected: list[str]) -> None:
    found = document(data, 229, wire_length)
    assert found["malformed"] == reason
    assert names(found)[len(names(found)) - len(expected) :] == expected
    assert (found["icrc_ok"], found["trimmed"]) == (None, False)
    if reason is None:
        # All headers are there: the payload is as long as it was on the wire.
        assert found["layers"][-1] == {"layer": "payload", "length": 88}


_ACK = bytes.fromhex("d1 00 ffff 00 1a0111 00 00000b 1f 000003")


@pytest.mark.parametrize(
    ("packet", "reason", "tail", "icrc_ok"),
    [
        (ipv6_packet(b"\xff" + _ACK[1:]), "unknown_opcode: 0xff", ["bth", "payload", "icrc"], True),
        (ipv6_packet(_ACK[:12]), "no_icrc: 0 bytes follow the headers, the ICRC takes 4", ["bth", "aeth"], None),
        (ipv6_packet(_ACK[:10]), "short_header: aeth takes 4 bytes, 2 are left", ["bth", "payload"], None),
        (ipv6_packet(_ACK[:7]), "short_header: bth takes 12 bytes, 11 are left", ["udp", "payload"], None),
        (ipv6_packet(b"\xd1\x30" + _ACK[2:]), "bad_pad: pad count 3, 0 bytes of payload", ["aeth", "icrc"], True),
        (ipv6_packet(_ACK + b"abcd"), "unexpected_payload: 4 bytes after a Acknowledge", ["payload", "icrc"], True),
    ],
)
def test_malformed_transports(packet: bytes, reason: str, tail: list[str], icrc_ok: bool | None) -> None:
    found = document(packet, 229)
    assert found["malformed"] == reason
    assert names(found)[-len(tail) :] == tail
    assert found["icrc_ok"] is icrc_ok


def test_the_rest_of_an_unknown_opcode_ends_in_padding_and_icrc() -> None:
    found = document(ipv6_packet(b"\xff\x20" + _ACK[2:12] + b"abcdef"), 229)
    assert found["layers"][-2] == {"layer": "payload", "length": 4}
    assert found["icrc_ok"] is True


def test_lengths_that_disagree() -> None:
    longer = bytearray(ipv6_packet(_ACK) + b"\0" * 4)
    longer[4:6] = (int.from_bytes(longer[4:6], "big") + 4).to_bytes(2, "big")
    assert document(bytes(longer), 229)["malformed"] == "bad_length: UDP length 28, 32 bytes follow the IP header"
    tiny = bytearray(ipv6_packet(_ACK))
    tiny[44:46] = b"\0\7"
    assert document(bytes(tiny), 229)["malformed"] == "bad_length: UDP length 7, its header has 8"
    bad = octets("41000020 0000 0000 4011 0000 c0000201 c0000202") + bytes(12)
    assert document(bad, 228)["malformed"] == "bad_header_length: IPv4 header of 4 bytes, it takes 20"
    bad = octets("45000013 0000 0000 4011 0000 c0000201 c0000202") + bytes(12)
    assert document(bad, 228)["malformed"] == "bad_length: IPv4 length 19, its header has 20"


@pytest.mark.parametrize(
    ("entries", "left", "reason"),
    [
        (1, 1, "bad_srh: last entry 1, the header has room for 1 segments"),
        (0, 2, "bad_srh: segments left 2, last entry 0"),
    ],
)
def test_segment_routing_headers_that_cannot_be(entries: int, left: int, reason: str) -> None:
    packet = bytearray(BY_NAME["srv6_srh_write"].packet)
    packet[43], packet[44] = left, entries
    found = document(bytes(packet), 229)
    assert found["malformed"] == reason
    assert found["layers"][1]["fields"]["segments"] == ["5f00:0:4101::"]
    assert names(found)[-1] == "icrc"


def test_an_unknown_link_type() -> None:
    found = document(b"abc", 147)
    assert found["layers"] == [{"layer": "payload", "length": 3}]
    assert found["malformed"] == "unknown_link: link type 147"


@pytest.mark.parametrize("dscp", [12, 16])
@pytest.mark.parametrize("kept", [12, 16, 20, 35])
def test_trimmed_without_an_outer_header(dscp: int, kept: int) -> None:
    """STEV and UDP modes: both lengths rewritten by our trimmer, or neither by another one.

    MRC-TRIM-04, MRC-NAME-06.
    """
    whole = ipv6_packet(VECTORS[0].transport)
    for rewritten in (True, False):
        packet = bytearray(whole[: 48 + kept])
        packet[0:2] = (0x6000 | dscp << 6 | 2 << 4).to_bytes(2, "big")
        if rewritten:
            packet[4:6] = packet[44:46] = (8 + kept).to_bytes(2, "big")
        found = document(on_ethernet(bytes(packet)))
        assert (found["trimmed"], found["malformed"], found["icrc_ok"]) == (True, None, None)
        assert names(found)[3:] == ["bth", *["meth"] * (kept >= 16), *["reth"] * (kept >= 32), *(
            ["payload"] * (kept not in (12, 16)))]  # fmt: skip


def test_a_capture_that_kept_little_does_not_look_trimmed() -> None:
    whole = ipv6_packet(VECTORS[0].transport)
    marked = (0x6000 | 12 << 6).to_bytes(2, "big") + whole[2:]
    found = document(marked[:68], 229, len(marked))
    assert (found["trimmed"], found["malformed"]) == (
        False,
        "cut_short: the capture kept 20 bytes of headers, they take 32",
    )
    assert document(marked, 229)["icrc_ok"] is True


def test_no_time_stamp_is_null() -> None:
    record = Record(None, SRV6, len(SRV6), 229)
    assert packet_document(1, record, walk(SRV6, 229, len(SRV6)))["time"] is None
