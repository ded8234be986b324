# SPDX-License-Identifier: BSD-2-Clause
"""What a packet in one line works out by itself when it is built; expectations from wire.md, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from vector_forms import icrc_by_hand

from mrc.errors import CallerError
from mrc.layers import (
    AETH,
    BTH,
    CC_STATE,
    DETH,
    EETH,
    ERTH,
    ICRC,
    IETH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
    check_icrc,
    in_srv6,
    in_udp,
    segmented,
    use_wire_profile,
    usid_destination,
)
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

SRC, DST = "fd00::1", "fd00::2"
WRITE = METH() / RETH()


def below() -> Packet:
    return IPv6(src=SRC, dst=DST) / UDP()


@pytest.fixture
def restore_profile() -> Iterator[None]:
    yield
    use_wire_profile(DEFAULT_WIRE_PROFILE)


# Section 2 of wire.md, and IBTA chapter 9: the packet that stands alone.
@pytest.mark.parametrize(
    ("headers", "opcode"),
    [
        (METH() / RETH(), 0xCA),
        (METH() / TSETH() / RETH(), 0xCA),
        (METH() / RETH() / ImmDt(), 0xCB),
        (METH() / TSETH() / RETH() / ImmDt(), 0xCB),
        (AETH(), 0xD1),
        (ERTH(), 0xD8),
        (EETH(), 0xD9),
        (SETH() / CC_STATE(), 0xDC),
        (NETH(), 0xDD),
        (PETH(), 0xDE),
        (ImmDt(), 0x05),
        (RETH(), 0x0A),
        (RETH() / ImmDt(), 0x0B),
        (AETH() / AtomicAckETH(), 0x12),
        (IETH(), 0x17),
        (DETH(), 0x64),
        (DETH() / ImmDt(), 0x65),
    ],
)
def test_the_opcode_follows_from_the_headers(headers: Packet, opcode: int) -> None:
    assert bytes(below() / BTH() / headers)[48] == opcode
    assert bytes(below() / (BTH() / headers))[48] == opcode
    assert bytes(below() / BTH(opcode=0xC7) / headers)[48] == 0xC7


def test_an_atomic_without_a_name_is_an_atomic() -> None:
    """Both atomic requests carry the same header."""
    assert bytes(BTH() / AtomicETH())[0] in (0x13, 0x14)


@pytest.mark.parametrize("payload", [b"", b"h", b"hello", bytes(4096)])
@pytest.mark.parametrize("immediate", [False, True])
def test_dmalen_of_a_whole_message_is_its_payload(payload: bytes, immediate: bool) -> None:
    packet: Any = below() / BTH() / METH() / RETH(va=1)
    if immediate:
        packet /= ImmDt(data=9)
    if payload:
        packet /= payload
    built = bytes(packet)
    assert built[48 + 12 + 4 + 12 : 48 + 12 + 4 + 16] == len(payload).to_bytes(4, "big")
    dissected = IPv6(built)
    del dissected[RETH].dmalen, dissected[ICRC].crc
    assert bytes(dissected) == built


def test_a_given_dmalen_stays() -> None:
    assert IPv6(bytes(below() / BTH() / METH() / RETH(dmalen=0) / b"hello"))[RETH].dmalen == 0
    assert IPv6(bytes(below() / BTH(opcode=0x0C) / RETH(dmalen=99)))[RETH].dmalen == 99
    assert "Len=5" in (below() / BTH() / METH() / RETH() / b"hello").summary()


def test_the_psn_of_a_sack_is_its_cack_psn_and_of_a_nack_its_own() -> None:
    """Section 3: a SACK carries PSN = its cack_psn, a NACK the packet that caused it, a probe 0."""
    assert IPv6(bytes(below() / BTH() / SETH(cack_psn=0xABCDEF) / CC_STATE()))[BTH].psn == 0xABCDEF
    assert IPv6(bytes(below() / BTH() / NETH(nack_psn=7)))[BTH].psn == 7
    assert IPv6(bytes(below() / BTH() / PETH()))[BTH].psn == 0
    assert IPv6(bytes(below() / BTH(psn=0) / SETH(cack_psn=5) / CC_STATE()))[BTH].psn == 0


@pytest.mark.parametrize("header", [SETH(), NETH(), PETH()])
def test_dpdcid_is_the_low_half_of_the_dqp(header: Packet) -> None:
    """Section 6: the low 16 bits of the QPN of the packet's receiver."""
    built = IPv6(bytes(below() / BTH(dqp=0xAB1234) / header))
    assert built[type(header)].dpdcid == 0x1234
    given = type(header)(dpdcid=0)
    assert IPv6(bytes(below() / BTH(dqp=0xAB1234) / given))[type(header)].dpdcid == 0


def test_dcids_of_the_data_have_the_dqp_in_spdcid_of_an_answer() -> None:
    """wire.md section 6, dcids_of_data: "the requestor's own QPN is spdcid"; a probe "is the same in both"."""
    use_wire_profile(WireProfile(dcids_of_data=True))
    for header, expected in ((SETH(), (0x1234, 0)), (NETH(), (0x1234, 0)), (PETH(), (0, 0x1234))):
        built = IPv6(bytes(below() / BTH(dqp=0xAB1234) / header))[type(header)]
        assert (built.spdcid, built.dpdcid) == expected


def test_a_probe_id_makes_a_sack_the_answer_to_a_probe() -> None:
    """Section 6: bytes 2-3 are probe_id when pr (bit 1 of byte 1) is 1."""
    assert bytes(SETH(probe_id=0xFFFE))[:4] == bytes((0, 2, 0xFF, 0xFE))
    later = SETH()
    later.probe_id = 5
    assert bytes(later)[:4] == bytes((0, 2, 0, 5))
    assert bytes(SETH(ack_psn_offset=-2))[:4] == bytes((0, 0, 0xFF, 0xFE))
    assert bytes(SETH(pr=0, probe_id=3))[:4] == bytes(4)


DATA, RETX, CONTROL = 4 << 2 | 2, 8 << 2 | 2, 46 << 2


# Section 12: codepoints 4, 8 and 46; data and probes ECT(0).
@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (BTH() / WRITE, DATA),
        (BTH(rtx=1) / WRITE, RETX),
        (BTH(opcode=0xC7) / WRITE / b"x", DATA),
        (BTH() / PETH(), DATA),
        (BTH() / SETH() / CC_STATE(), CONTROL),
        (BTH(rtx=1) / SETH() / CC_STATE(), CONTROL),
        (BTH() / NETH(), CONTROL),
        (BTH() / AETH(), CONTROL),
        (BTH() / ERTH(), CONTROL),
        (BTH() / EETH(), CONTROL),
        (BTH() / RETH() / b"x", 0),
        (BTH(opcode=0x11) / AETH(), 0),
        (BTH(opcode=0xFF) / b"x", 0),
    ],
)
def test_the_traffic_class_is_that_of_section_12(packet: Packet, expected: int) -> None:
    over_ipv4 = IP(bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP() / packet))
    assert over_ipv4.tos == expected
    assert over_ipv4.chksum == IP(bytes(IP(bytes(over_ipv4), chksum=None))).chksum
    for stack in (below() / packet, IPv6(src=SRC, dst=DST) / (UDP() / packet)):
        assert stack.tc == expected, "as shown before it is built"
        assert IPv6(bytes(stack)).tc == expected
    routed = IPv6(src=SRC, dst=DST) / IPv6ExtHdrSegmentRouting(addresses=[DST], segleft=0)
    for outer in (IPv6(src=SRC, dst=DST), Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IPv6(), routed):
        built = bytes(outer / below() / packet)
        found = (Ether if Ether in outer else IPv6)(built)
        assert (found[IPv6].tc, found.getlayer(IPv6, 2).tc) == (expected, expected)


def test_a_given_traffic_class_stays() -> None:
    packet = IPv6(src=SRC, dst=DST, tc=3) / IPv6(src=SRC, dst=DST) / UDP() / BTH() / WRITE
    built = IPv6(bytes(packet))
    assert (built.tc, built.getlayer(IPv6, 2).tc) == (3, DATA)
    assert IPv6(bytes(IPv6(src=SRC, dst=DST) / IPv6(src=SRC, dst=DST, tc=0) / UDP() / BTH() / WRITE)).tc == DATA


def test_the_traffic_class_follows_later_changes() -> None:
    packet = IPv6(src=SRC, dst=DST) / below() / BTH() / WRITE
    explicit = next(iter(packet))
    for kind in (packet, explicit):
        kind[BTH].rtx = 1
        assert (kind.tc, kind.getlayer(IPv6, 2).tc) == (RETX, RETX)
        assert IPv6(bytes(kind)).tc == RETX
    dissected = IPv6(bytes(packet))
    dissected[BTH].rtx = 0
    assert IPv6(bytes(dissected)).tc == RETX, "it was read, so it is set"
    del dissected.tc
    assert IPv6(bytes(dissected)).tc == DATA
    dissected[BTH].opcode = 0x0A
    assert IPv6(bytes(dissected)).tc == 0


def test_other_traffic_is_left_alone() -> None:
    assert IPv6(bytes(IPv6(src=SRC, dst=DST) / IPv6(src=SRC, dst=DST) / UDP(sport=1, dport=2) / b"x")).tc == 0
    assert IP(bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1, dport=2) / b"x")).tos == 0


@pytest.mark.usefixtures("restore_profile")
def test_the_codepoints_are_the_wire_profiles() -> None:
    use_wire_profile(WireProfile(dscp_trimmable=5, dscp_trimmable_retx=6, dscp_control=7))
    assert IPv6(bytes(below() / BTH() / WRITE)).tc == 5 << 2 | 2
    assert IPv6(bytes(below() / BTH(rtx=1) / WRITE)).tc == 6 << 2 | 2
    assert IPv6(bytes(below() / BTH() / NETH())).tc == 7 << 2


def test_ports_and_checksum() -> None:
    udp = IPv6(bytes(below() / BTH() / WRITE))[UDP]
    assert (udp.sport, udp.dport, udp.chksum, udp.len) == (0xC000, 4791, 0, 8 + 12 + 4 + 16 + 4)
    assert bytes(IPv6(src=SRC, dst=DST) / UDP(sport=53, dport=4971) / BTH() / WRITE)[40:44] == bytes.fromhex("0035136b")


def test_an_ev_rides_in_source_port_and_flow_label() -> None:
    """Section 10."""
    packet = IPv6(bytes(in_udp(0x12345678, SRC, DST) / BTH() / WRITE))
    assert (packet[UDP].sport, packet.fl) == (0x5678, 0x1234)
    assert IP(bytes(in_udp(0x5678, "192.0.2.1", "192.0.2.2") / BTH() / WRITE))[UDP].sport == 0x5678
    for wrong in ((0x10000, "192.0.2.1", "192.0.2.2"), (-1, SRC, DST), (1 << 32, SRC, DST), (0, SRC, "192.0.2.1")):
        with pytest.raises(CallerError):
            in_udp(*wrong)
    with pytest.raises(CallerError):
        in_udp(0, "nowhere", DST)


def test_an_ev_spells_its_path() -> None:
    """Section 11: plane 1, uplink 3, leaf 0 to host 1 on leaf 1."""
    packet = IPv6(bytes(in_srv6(0x01000003, SRC, DST) / BTH() / WRITE / b"x"))
    inner = packet.getlayer(IPv6, 2)
    assert (packet.dst, packet.nh, packet.src) == ("5f00:0:1100:2103:1101:4101::", 41, SRC)
    assert (inner.src, inner.dst, packet[UDP].sport, inner.fl) == (SRC, DST, 3, 0x0100)
    assert check_icrc(packet) is True
    assert packet.original[-4:] == icrc_by_hand(packet.original[40:-4])
    back = in_srv6(0, DST, SRC, source_leaf=1, destination_leaf=0, destination_host=0)
    assert back.dst == "5f00:0:1001:2000:1000:4000::"
    # Two hosts on one leaf: source leaf, host port... whose leaf has taken the packet already.
    assert usid_destination(0, 0, source_leaf=0, destination_leaf=0, destination_host=2) == ("5f00:0:1000:4002::",)
    for wrong in (0x00010000, 0x10000000, 0x00000100):
        with pytest.raises(CallerError):
            in_srv6(wrong, SRC, DST)
    with pytest.raises(CallerError):
        in_srv6(0, "192.0.2.1", "192.0.2.2")


def test_the_reduced_header_holds_the_last_container() -> None:
    """Section 11: segments left 1, last entry 0, no TLV, flags and tag 0."""
    packet = IPv6(bytes(in_srv6(0x01000003, SRC, DST, srh=True) / BTH() / WRITE / b"x"))
    assert packet.dst == "5f00:0:1100:2103:1101::"
    expected = bytes.fromhex("29020401 00000000 5f00 0000 4101 0000 0000 0000 0000 0000")
    assert packet.original[40:64] == expected
    assert check_icrc(packet) is True


def test_a_long_message_is_cut_into_first_middle_and_last() -> None:
    """Section 4: VA advances by the path MTU, DMALen is the whole's, the MSN the same; padding only in the last."""
    payload = bytes(range(250)) * 3
    stack = in_udp(0xC001, SRC, DST) / BTH(dqp=7, psn=0xFFFFFF, ackreq=1) / METH(msn=5, rqmsn=2) / TSETH(tx_timestamp=9)
    packets = [IPv6(bytes(p)) for p in segmented(stack / RETH(va=0x1000, rkey=3) / ImmDt(data=8) / payload, pmtu=256)]
    assert [p[BTH].opcode for p in packets] == [0xC6, 0xC7, 0xC9]
    assert [p[BTH].psn for p in packets] == [0xFFFFFF, 0, 1]
    assert [p[BTH].ackreq for p in packets] == [0, 0, 1]
    assert [p[RETH].va for p in packets] == [0x1000, 0x1100, 0x1200]
    assert {(p[METH].msn, p[METH].rqmsn, p[TSETH].tx_timestamp, p[RETH].dmalen) for p in packets} == {(5, 2, 9, 750)}
    assert [ImmDt in p for p in packets] == [False, False, True]
    assert [p[BTH].pad for p in packets] == [0, 0, 2]
    assert b"".join(p[Raw].load for p in packets) == payload
    assert all(check_icrc(p) for p in packets)


@pytest.mark.parametrize(
    ("length", "opcodes"),
    [(0, [0xCA]), (1, [0xCA]), (256, [0xCA]), (257, [0xC6, 0xC8]), (512, [0xC6, 0xC8]), (513, [0xC6, 0xC7, 0xC8])],
)
def test_where_a_message_is_cut(length: int, opcodes: list[int]) -> None:
    packets = segmented(below() / BTH() / METH() / RETH() / Raw(bytes(length)), pmtu=256)
    assert [IPv6(bytes(p))[BTH].opcode for p in packets] == opcodes


def test_what_cannot_be_cut() -> None:
    with pytest.raises(CallerError, match="path MTU"):
        segmented(below() / BTH() / METH() / RETH(), pmtu=1000)
    with pytest.raises(CallerError, match="METH"):
        segmented(below() / BTH() / RETH())
