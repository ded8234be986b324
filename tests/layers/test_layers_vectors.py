# SPDX-License-Identifier: BSD-2-Clause
"""The layers against bytes worked out by hand: build gives the bytes, dissection gives the fields."""

from __future__ import annotations

import pytest
from crafting import check_fields, crafted, with_payload
from packet_vectors import PACKETS, PacketVector
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from vector_forms import Vector, crc32_bit_by_bit, icrc_by_hand, ipv6_packet
from vectors import RESERVED_VECTORS, STANDARD_VECTORS, VECTORS

from mrc.layers import BTH, ICRC, METH, TSETH, Pad
from mrc.layers.icrc import check_icrc
from mrc.wire.opcodes import HEADER_LENGTHS, OPCODES

ALL = (*VECTORS, *STANDARD_VECTORS, *RESERVED_VECTORS)
every_vector = pytest.mark.parametrize("vector", ALL, ids=[vector.name for vector in ALL])
every_packet = pytest.mark.parametrize("packet", PACKETS, ids=[packet.name for packet in PACKETS])


def test_vectors_cover_every_mrc_opcode_and_header() -> None:
    headers = {layer["layer"] for vector in ALL for layer in vector.layers}
    assert headers == {"bth", *HEADER_LENGTHS}
    seen = {vector.headers[0] for vector in VECTORS}
    assert seen == {value for value, opcode in OPCODES.items() if opcode.is_mrc}


@every_vector
def test_build_gives_the_bytes(vector: Vector) -> None:
    below = IPv6(tc=0x12, fl=0x100, src="fc00::1", dst="fc00::2") / UDP(sport=3)
    assert bytes(with_payload(below / crafted(vector.layers), vector)) == ipv6_packet(vector.transport)


@every_vector
def test_pad_and_ts_are_worked_out(vector: Vector) -> None:
    below = IPv6(tc=0x12, fl=0x100, src="fc00::1", dst="fc00::2") / UDP(sport=3)
    packet = with_payload(below / crafted(vector.layers, without=("bth.pad", "bth.ts")), vector)
    assert bytes(packet) == ipv6_packet(vector.transport)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector.name for vector in VECTORS])
def test_opcode_follows_from_the_header_above(vector: Vector) -> None:
    control = vector.layers[1]["layer"] != "meth"
    without = ("bth.opcode", "bth.dqp") if vector.layers[1]["layer"] in ("erth", "eeth") else ("bth.opcode",)
    built = bytes(with_payload(crafted(vector.layers, without=without), vector))
    # A request alone is a whole message, Only or Only with Immediate.
    assert built[0] == (vector.headers[0] if control else 0xCB if vector.layers[-1]["layer"] == "immdt" else 0xCA)
    assert built[1:-4] == vector.transport[1:]


@every_vector
def test_dissection_gives_the_fields(vector: Vector) -> None:
    """MRC-NAME-01."""
    data = ipv6_packet(vector.transport)
    packet = IPv6(data)
    check_fields(packet[BTH], vector.layers)
    last = packet[BTH].getlayer(len(vector.layers) - 1)
    rest = [type(layer) for layer in (last.payload, last.payload.payload, last.payload.payload.payload)]
    names = [Raw] * bool(vector.payload) + [Pad] * bool(vector.padding) + [ICRC]
    assert rest[: len(names)] == names
    assert (packet[Raw].load if vector.payload else b"") == vector.payload
    assert (packet[Pad].data if vector.padding else b"") == vector.padding
    assert packet[ICRC].crc == int.from_bytes(data[-4:], "big")
    assert check_icrc(packet) is True
    assert bytes(packet) == data


@every_vector
def test_reserved_fields_are_zero_unless_said(vector: Vector) -> None:
    layer = BTH(vector.transport + bytes(4))
    for expected in vector.layers:
        for name in (field.name for field in layer.fields_desc if field.name.startswith("reserved")):
            value = layer.getfieldval(name)
            empty = bytes(len(value)) if isinstance(value, bytes) else 0
            assert value == expected["fields"].get(name, empty), f"{expected['layer']}.{name}"
        layer = layer.payload


@every_packet
def test_whole_packets_dissect(packet: PacketVector) -> None:
    dissected = (IP if packet.packet[0] >> 4 == 4 else IPv6)(packet.packet)
    if packet.trimmed:
        check_fields(dissected, [*packet.layers, *packet.vector.layers[:3]])
        assert not dissected.haslayer(ICRC)
        assert check_icrc(dissected) is None
    else:
        check_fields(dissected, [*packet.layers, *packet.vector.layers])
        assert check_icrc(dissected) is True
    assert bytes(dissected) == packet.packet


@every_packet
def test_whole_packets_build(packet: PacketVector) -> None:
    """MRC-SRV6-01, MRC-SRV6-11."""
    computed = ("ipv4.len", "ipv4.chksum", "ipv6.plen", "udp.len", "udp.chksum", "bth.pad", "srh.len", "srh.lastentry")
    layers = [*packet.layers, *packet.vector.layers]
    if packet.trimmed:
        # Lengths as the trimmer leaves them: only the outermost is the packet's own.
        built = bytes(crafted(layers[:-1]))
    else:
        built = bytes(with_payload(crafted(layers, without=computed), packet.vector))
    assert built == packet.packet


def test_icrc_of_udp_on_a_segment_routing_header() -> None:
    """No inner IPv6: the CRC is over the IPv6 header and the routing header as they stand, and never 0."""
    outer, inner = PACKETS[3], PACKETS[3].vector
    layers = [*outer.layers[:2], outer.layers[3], *inner.layers]
    without = ("ipv6.plen", "srh.len", "srh.nh", "udp.len", "bth.pad")
    built = bytes(with_payload(crafted(layers, without=without), inner))
    assert built[40] == 17
    # UDP begins 24 bytes later than without the routing header.
    ip, srh, rest = built[:40], built[40:64], built[64:-4]
    masked = bytearray(ip + srh + rest)
    masked[0] |= 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    masked[64 + 6] = masked[64 + 7] = masked[64 + 12] = 0xFF
    assert built[-4:] == crc32_bit_by_bit(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")
    dissected = IPv6(built)
    assert check_icrc(dissected) is True
    dissected[BTH].psn += 1
    assert check_icrc(dissected) is False


def test_icrc_ignores_what_routers_change_and_nothing_else() -> None:
    packet = IPv6(PACKETS[1].packet)
    value = packet[ICRC].crc
    for change in ({"tc": 0x13}, {"fl": 0xFFFFF}, {"hlim": 1}):
        copy = packet.copy()
        for name, new in change.items():
            setattr(copy, name, new)
        assert check_icrc(copy) is True
        del copy[ICRC].crc
        assert IPv6(bytes(copy))[ICRC].crc == value
    for layer, name, new in ((IPv6, "dst", "fd00::3"), (UDP, "sport", 4), (TSETH, "tx_timestamp", 1), (METH, "msn", 0)):
        copy = packet.copy()
        setattr(copy[layer], name, new)
        assert check_icrc(copy) is False, name
        del copy[ICRC].crc
        built = bytes(copy)
        assert built[-4:] == icrc_by_hand(built[:-4]), name
        assert IPv6(built)[ICRC].crc != value, name


def test_edited_payload_is_padded_anew() -> None:
    packet = IPv6(PACKETS[1].packet)
    packet[Raw].load = b"seven b"
    for layer, field in ((IPv6, "plen"), (UDP, "len"), (BTH, "pad"), (Pad, "data"), (ICRC, "crc")):
        delattr(packet[layer], field)
    built = bytes(packet)
    rebuilt = IPv6(built)
    assert (rebuilt[BTH].pad, rebuilt[Raw].load, rebuilt[Pad].data) == (1, b"seven b", b"\0")
    assert built[-4:] == icrc_by_hand(built[:-4])


def test_without_ip_the_icrc_is_zero() -> None:
    assert bytes(BTH() / METH())[-4:] == bytes(4)
    assert bytes(UDP(sport=3) / BTH() / METH())[-4:] == bytes(4)


def test_udp_checksum_is_zero_unless_set() -> None:
    below = IPv6(src="fc00::1", dst="fc00::2")
    assert bytes(below / UDP(sport=3) / BTH() / METH())[46:48] == bytes(2)
    assert bytes(below / UDP(sport=3, chksum=0x1234) / BTH() / METH())[46:48] == b"\x12\x34"
    computed = bytes(below / UDP(sport=3, chksum=None) / BTH() / METH())
    # RFC 8200 section 8.1: pseudo-header and UDP, the checksum included, sum to all ones.
    data = computed[8:40] + computed[4:6] + b"\0\x11" + computed[40:]
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF
