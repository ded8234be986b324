# SPDX-License-Identifier: BSD-2-Clause
"""What people see: names down to the ICRC, one-line summaries, quiet on junk, trimmed packets, requests and answers."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
import scapy.all
from hypothesis import given
from hypothesis import strategies as st
from packet_vectors import PACKETS
from scapy.config import conf
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from vector_forms import ipv6_packet
from vectors import STANDARD_VECTORS, VECTORS

import mrc.layers
from mrc.layers import BTH, CC_STATE, EETH, ERTH, ICRC, METH, NETH, PETH, RETH, SETH, TSETH
from mrc.layers.bind import use_wire_profile
from mrc.layers.icrc import check_icrc
from mrc.wire.opcodes import OPCODES
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_ETHER = bytes.fromhex("020000000002 020000000001 86dd")


@pytest.fixture
def restore_profile() -> Iterator[None]:
    yield
    use_wire_profile(DEFAULT_WIRE_PROFILE)


def test_show_names_every_layer_of_an_srv6_packet() -> None:
    shown = Ether(_ETHER + PACKETS[3].packet).show(dump=True)
    names = [line.split("[ ")[1].split(" ]")[0] for line in shown.splitlines() if line.strip().startswith("###[")]
    assert names == [
        *("Ethernet", "IPv6", "IPv6 Option Header Segment Routing", "IPv6", "UDP"),
        *("BTH", "METH", "TSETH", "RETH", "Raw", "Pad", "ICRC"),
    ]
    assert "opcode    = RDMA WRITE Only" in shown


def test_summaries_read_like_tsharks_info_column() -> None:
    by_name = {vector.name: IPv6(ipv6_packet(vector.transport)).summary() for vector in VECTORS}
    assert by_name["sack_section_6_example"].endswith(
        "Reliability SACK QP=0x1a0111 PSN=4 cack=4 ack=11 EV=0x01000003 bitmap=+1:0x76 ooo=5"
    )
    assert by_name["nack_no_bitmap"].endswith("Reliability NACK QP=0x1a0111 PSN=5 NO_BITMAP nack=5 EV=0x01000003")
    assert "RDMA WRITE Last QP=0x2b0222 PSN=2 [AckReq] MSN=7" in by_name["write_last"]
    for vector in VECTORS:
        assert OPCODES[vector.headers[0]].name in by_name[vector.name]
        assert "UDP fc00::1:3 > fc00::2:4791" in by_name[vector.name]


@pytest.mark.parametrize("port", [4791, 4971])
@pytest.mark.parametrize("sport", [53, 4789, 3])
def test_both_ports_whatever_the_source_port(port: int, sport: int) -> None:
    """The source port carries an entropy value, so it may be anyone's well-known port."""
    packet = IPv6(ipv6_packet(VECTORS[0].transport, sport=sport, dport=port))
    assert type(packet[UDP].payload) is BTH
    assert check_icrc(packet) is True


@pytest.mark.parametrize(
    "imports",
    [
        "import scapy.contrib.roce; from mrc.layers import BTH",
        "from mrc.layers import BTH; import scapy.contrib.roce",
        "from scapy.all import load_contrib; load_contrib('roce'); from mrc.layers import BTH",
        "from scapy.main import load_contrib; from mrc.layers import BTH; load_contrib('roce')",
    ],
)
def test_scapys_own_roce_layer_gives_way_where_ours_is_bound(imports: str) -> None:
    code = (
        f"{imports}\nfrom mrc.layers import bind_to_udp\nfrom scapy.layers.inet6 import IPv6, UDP\nbind_to_udp()\n"
        f"packet = IPv6(bytes.fromhex('{PACKETS[1].packet.hex()}'))\n"
        "assert type(packet[UDP].payload) is BTH, packet\n"
        "print([layer.__name__ for layer in packet.layers()][2:])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['BTH', 'METH', 'TSETH', 'RETH', 'Raw', 'Pad', 'ICRC']"
    assert done.stderr == ""


def test_star_import_gives_layers_and_helpers_and_hides_nothing_of_scapys() -> None:
    names = set(mrc.layers.__all__)
    layers = {name for name in names if isinstance(getattr(mrc.layers, name), type)}
    assert all(issubclass(getattr(mrc.layers, name), Packet) for name in layers)
    assert names - layers == {
        *(
            "bind_to_udp",
            "bound_to_udp",
            "check_hmac",
            "check_icrc",
            "in_srv6",
            "in_udp",
            "segmented",
            "unbind_from_udp",
            "use_wire_profile",
            "usid_destination",
            "with_hmac",
        )
    }
    assert not names & set(vars(scapy.all))
    assert {
        "BTH",
        "METH",
        "TSETH",
        "RETH",
        "ImmDt",
        "AETH",
        "SETH",
        "CC_STATE",
        "NETH",
        "PETH",
        "ERTH",
        "EETH",
    } <= layers


@given(st.binary(max_size=80))
def test_any_bytes_after_udp_dissect(data: bytes) -> None:
    below = IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=3, dport=4791, chksum=0)
    packet = IPv6(bytes(below / Raw(data)))
    assert bytes(packet) == packet.original
    assert (BTH in packet) == (len(data) >= 12)
    assert packet.summary()
    BTH(data).show(dump=True)


@given(st.lists(st.tuples(st.sampled_from(sorted(OPCODES)), st.binary(max_size=60)), min_size=2, max_size=2))
def test_any_two_packets_can_be_compared(both: list[tuple[int, bytes]]) -> None:
    below = IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=3, dport=4791, chksum=0)
    first, second = (IPv6(bytes(below / Raw(bytes((opcode,)) + data))) for opcode, data in both)
    assert first.answers(second) in (True, False)
    assert isinstance(first.hashret() + second.hashret(), bytes)


@given(st.sampled_from(sorted(OPCODES)), st.integers(0, 255), st.integers(0, 255), st.binary(max_size=60))
def test_any_bytes_after_an_opcode_dissect(opcode: int, byte_1: int, byte_8: int, rest: bytes) -> None:
    data = bytes((opcode, byte_1)) + bytes(6) + bytes((byte_8,)) + bytes(3) + rest
    packet = BTH(data)
    assert bytes(packet) == data
    assert packet.summary().startswith(OPCODES[opcode].name)
    # Headers only whole, and the ICRC only after all of them.
    length = OPCODES[opcode].header_length(bool(packet.ts))
    assert (ICRC in packet) == (len(rest) >= length + 4)


def test_truncated_and_damaged_packets_never_raise(capfd: pytest.CaptureFixture[str]) -> None:
    generator = random.Random(4791)
    for vector in (*VECTORS, *STANDARD_VECTORS):
        whole = _ETHER + ipv6_packet(vector.transport)
        for length in range(14, len(whole), 7 if len(whole) > 200 else 1):
            assert bytes(Ether(whole[:length])) == whole[:length]
        for _ in range(20):
            damaged = bytearray(whole)
            for _ in range(4):
                damaged[generator.randrange(14, len(whole))] = generator.randrange(256)
            Ether(bytes(damaged)).show(dump=True)
    for _ in range(200):
        Ether(_ETHER + generator.randbytes(generator.randrange(120))).show(dump=True)
    assert capfd.readouterr() == ("", "")


def test_unknown_opcode_is_a_bth_and_raw() -> None:
    packet = IPv6(ipv6_packet(b"\xff" + VECTORS[0].transport[1:]))
    assert [layer.__name__ for layer in packet[BTH].layers()] == ["BTH", "Raw", "ICRC"]
    assert check_icrc(packet) is True
    assert "Unknown opcode 0xff" in packet.summary()


def test_trimmed_without_timestamp_keeps_the_meth() -> None:
    """UDP mode: BTH, METH and four bytes of the RETH (wire.md section 12)."""
    transport = VECTORS[0].transport[:20]
    built = IPv6(tc=12 << 2, src="fc00::1", dst="fc00::2") / UDP(sport=3) / BTH(transport[:12]) / METH(transport[12:16])
    data = bytes(built / Raw(transport[16:20]))
    assert data[48:] == transport
    packet = IPv6(data)
    assert [layer.__name__ for layer in packet[BTH].layers()] == ["BTH", "METH", "Raw"]
    assert packet[METH].msn == 7
    assert check_icrc(packet) is None
    packet[BTH].psn = 9
    assert len(bytes(packet)) == len(data)


def test_a_control_packet_with_a_trimmed_codepoint_is_whole() -> None:
    data = bytes(IPv6(tc=12 << 2, src="fc00::1", dst="fc00::2") / UDP(sport=3) / BTH() / NETH(reason=7))
    assert len(data) == 40 + 8 + 12 + 20 + 4
    assert check_icrc(IPv6(data)) is True


def test_a_probe_pairs_with_its_sack() -> None:
    probe = IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=3) / BTH(dqp=0x22) / PETH(probe_id=7, spdcid=1, dpdcid=2)
    below = IPv6(src="fc00::2", dst="fc00::1") / UDP(sport=9) / BTH(dqp=0x11, psn=5)
    answer = below / SETH(pr=1, probe_id=7, spdcid=2, dpdcid=1) / CC_STATE()
    other = below / SETH(pr=1, probe_id=8) / CC_STATE()
    data_sack = below / SETH(pr=0, ack_psn_offset=7) / CC_STATE()
    probe, answer, other, data_sack = (IPv6(bytes(packet)) for packet in (probe, answer, other, data_sack))
    assert answer[BTH].answers(probe[BTH])
    assert not other[BTH].answers(probe[BTH])
    assert not data_sack[BTH].answers(probe[BTH])
    assert not probe[BTH].answers(answer[BTH])
    assert answer.hashret() == probe.hashret() != other.hashret()
    assert data_sack.hashret() != probe.hashret()
    # Answers go to port 4791, not to the probe's source port: the whole stack agrees once Scapy stops asking for that.
    before, conf.checkIPsrc = conf.checkIPsrc, False
    try:
        assert answer.answers(probe)
        assert not other.answers(probe)
    finally:
        conf.checkIPsrc = before


def test_an_endpoint_request_pairs_with_its_response() -> None:
    """MRC-WIRE-33."""
    request = BTH(bytes(BTH(psn=0x01C0DE) / ERTH(op=1)))
    response = BTH(bytes(BTH(psn=0x00C0DE) / EETH(op=1)))
    other = BTH(bytes(BTH(psn=0x01C0DF) / EETH(op=1)))
    assert (request.dqp, response.dqp) == (2, 2)
    assert response.answers(request)
    assert not other.answers(request)
    assert not request.answers(response)
    assert request.hashret() == response.hashret() != other.hashret()


@pytest.mark.usefixtures("restore_profile")
def test_wire_profile_switches_change_the_bytes() -> None:
    below = IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=3)
    before = bytes(below / BTH(se=1) / EETH(op=1))
    assert (before[29] & 0xC0, before[41]) == (0x80, 1 << 2)
    profile = WireProfile(solicited_event_first=False, eeth_op_shift=4, udp_port=4971, neth_cc_type=0)
    use_wire_profile(profile)
    after = bytes(below / BTH(se=1) / EETH(op=1))
    assert (after[29] & 0xC0, after[41], after[22:24]) == (0x40, 1 << 4, (4971).to_bytes(2, "big"))
    dissected = IP(after)
    assert (dissected[BTH].se, dissected[BTH].m, dissected[EETH].op) == (1, 0, 1)
    assert check_icrc(dissected) is True
    assert bytes(BTH() / NETH())[12 + 16] == 0
    use_wire_profile(WireProfile(udp_checksum_zero=False))
    assert bytes(below / BTH() / NETH())[26:28] != bytes(2)
    assert bytes(BTH() / NETH())[12 + 16] == 0x20
    use_wire_profile(DEFAULT_WIRE_PROFILE)
    assert bytes(below / BTH(se=1) / EETH(op=1)) == before


@pytest.mark.usefixtures("restore_profile")
def test_standard_opcodes_keep_se_first_whatever_the_switch_says() -> None:
    """Byte 29: 20 of IPv4, 8 of UDP, then the BTH's second. MRC-WIRE-34."""
    use_wire_profile(WireProfile(solicited_event_first=False))
    for se, m, bits in ((1, 0, 0x80), (0, 1, 0x40)):
        built = bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=3) / BTH(opcode=0x04, se=se, m=m) / b"x")
        assert built[29] & 0xC0 == bits
        dissected = IP(built)
        assert (dissected[BTH].se, dissected[BTH].m) == (se, m)
        del dissected[BTH].pad
        assert bytes(dissected) == built


@pytest.mark.usefixtures("restore_profile")
def test_icrc_over_the_outer_header_when_the_profile_says_so() -> None:
    packet = IPv6(PACKETS[2].packet)
    assert check_icrc(packet, WireProfile(icrc_covers_outer=True)) is False
    use_wire_profile(WireProfile(icrc_covers_outer=True))
    del packet[ICRC].crc
    built = IPv6(bytes(packet))
    assert check_icrc(built, WireProfile(icrc_covers_outer=True)) is True
    assert check_icrc(built, DEFAULT_WIRE_PROFILE) is False


def test_ethernet_padding_is_not_payload() -> None:
    whole = _ETHER + ipv6_packet(VECTORS[8].transport)
    packet = Ether(whole + b"\xaa" * 6)
    assert check_icrc(packet) is True
    del packet[ICRC].crc
    assert bytes(packet) == whole + b"\xaa" * 6


def test_crafted_and_dissected_packets_hold_the_same_layers() -> None:
    crafted = IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=3) / BTH() / METH() / TSETH() / RETH(dmalen=5) / b"hello"
    dissected = IPv6(bytes(crafted))
    assert dissected[BTH].ts == 1
    assert dissected[BTH].pad == 3
    assert [layer.__name__ for layer in dissected.layers()][: len(crafted.layers())] == [
        layer.__name__ for layer in crafted.layers()
    ]
