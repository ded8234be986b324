# SPDX-License-Identifier: BSD-2-Clause
"""Packets in what mirror ports, overlays and link types put around them, made with Scapy, for the tests of reading.

The reference is tshark.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from mrc.layers import AETH, BTH, DETH, METH, RETH

MACS = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}
OUTER = {"src": "192.0.2.1", "dst": "192.0.2.2"}
OUTER_6 = {"src": "2001:db8::1", "dst": "2001:db8::2"}
# tshark tells from the maker's bits of a MAC address, which ours have not, whether a pseudowire has a control word.
TSHARK_GUESSES = ("mpls_pseudowire", "mpls_pseudowire_plain")
PAYLOAD = b"sixteen bytes..."
ETHERNET, NULL, LOOP, PPP_LINK, RAW, SLL, SLL2 = 1, 0, 108, 9, 101, 113, 276


@dataclass(frozen=True)
class Case:
    """`inner` is the IP packet inside, `data` the frame."""

    name: str
    data: bytes
    inner: bytes
    link_type: int = ETHERNET
    opcode: int = 0


def rdma_write(version: int, opcode: int, psn: int = 5) -> Packet:
    """A write of MRC (0xCA) or RC (0x0A) over IPv4 or IPv6, with its ICRC."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2", flags="DF") if version == 4 else IPv6(src="fd00::1", dst="fd00::2", fl=7)
    headers = METH(msn=1) / RETH(va=0x1000, rkey=7) if opcode >= 0xC0 else RETH(va=0x1000, rkey=7)
    return ip / UDP(sport=0xC001) / BTH(opcode=opcode, dqp=0x11, psn=psn, ackreq=1) / headers / Raw(PAYLOAD)


def _tag(ether_type: int) -> bytes:
    """A VN-tag and the Ethernet type behind it."""
    return struct.pack(">IH", 0x80150007, ether_type)


def _frames(inner: bytes) -> Iterator[tuple[str, bytes, int]]:
    version = inner[0] >> 4
    ether_type = 0x0800 if version == 4 else 0x86DD
    ppp_type = 0x0021 if version == 4 else 0x0057
    frame = bytes(Ether(**MACS, type=ether_type) / inner)
    tagged = bytes(Ether(**MACS) / Dot1Q(vlan=7, type=ether_type) / inner)
    outer, outer_6 = Ether(**MACS) / IP(**OUTER), Ether(**MACS) / IPv6(**OUTER_6)
    label = {"label": 100, "ttl": 64}
    vxlan = outer / UDP(sport=50000, dport=4789) / VXLAN(vni=100, flags=8)

    def ether(ether_type: int, content: bytes) -> bytes:
        return bytes(Ether(**MACS, type=ether_type)) + content

    yield "erspan1", bytes(outer / GRE(proto=0x88BE) / frame), ETHERNET
    yield "erspan1_over_ipv6", bytes(outer_6 / GRE(proto=0x88BE) / frame), ETHERNET
    yield "erspan1_tagged", bytes(outer / GRE(proto=0x88BE) / tagged), ETHERNET
    numbered = GRE(proto=0x88BE, seqnum_present=1, sequence_number=9)
    second = bytes(ERSPAN_II(ver=1, vlan=5, session_id=100))
    yield "erspan2", bytes(outer / numbered / (second + frame)), ETHERNET
    yield "erspan2_tagged", bytes(outer / numbered / (second + tagged)), ETHERNET
    yield "erspan2_over_ipv6", bytes(outer_6 / numbered / (second + frame)), ETHERNET
    third = bytes(ERSPAN_III(ver=2, vlan=5, session_id=100, ft=0))
    platform = bytes(ERSPAN_III(ver=2, session_id=100, o=1)) + bytes.fromhex("1400000000000000")
    numbered = GRE(proto=0x22EB, seqnum_present=1, sequence_number=9)
    yield "erspan3", bytes(outer / numbered / (third + frame)), ETHERNET
    yield "erspan3_over_ipv6", bytes(outer_6 / numbered / (third + frame)), ETHERNET
    yield "erspan3_platform", bytes(outer / numbered / (platform + frame)), ETHERNET
    yield "gre_ip", bytes(outer / GRE(proto=ether_type) / inner), ETHERNET
    yield (
        "gre_key_and_checksum",
        bytes(outer / GRE(proto=ether_type, key_present=1, key=5, chksum_present=1) / inner),
        ETHERNET,
    )
    yield "gre_ethernet", bytes(outer / GRE(proto=0x6558) / frame), ETHERNET
    yield "gre_over_ipv6", bytes(outer_6 / GRE(proto=ether_type) / inner), ETHERNET
    yield "vxlan", bytes(vxlan / frame), ETHERNET
    yield "vxlan_over_ipv6", bytes(outer_6 / UDP(sport=50000, dport=4789) / VXLAN(vni=100, flags=8) / frame), ETHERNET
    yield "vxlan_tagged", bytes(vxlan / tagged), ETHERNET
    geneve = UDP(sport=50000, dport=6081)
    yield "geneve", bytes(outer / geneve / GENEVE(vni=100, proto=0x6558) / frame), ETHERNET
    options = bytes.fromhex("0200 6558 00006400 0102 80 01 01020304")
    yield "geneve_options", bytes(outer / geneve / (options + frame)), ETHERNET
    yield "geneve_over_ipv6", bytes(outer_6 / geneve / GENEVE(vni=100, proto=0x6558) / frame), ETHERNET
    yield "geneve_ip", bytes(outer / geneve / GENEVE(vni=100, proto=ether_type) / inner), ETHERNET
    yield "mpls", ether(0x8847, bytes(MPLS(**label, s=1)) + inner), ETHERNET
    yield (
        "mpls_labels",
        ether(0x8847, bytes(MPLS(**label, s=0) / MPLS(label=3, s=0, ttl=9)) + bytes(MPLS(s=1)) + inner),
        ETHERNET,
    )
    yield "mpls_pseudowire", ether(0x8847, bytes(MPLS(**label, s=1)) + bytes(4) + frame), ETHERNET
    yield "mpls_pseudowire_plain", ether(0x8847, bytes(MPLS(**label, s=1)) + frame), ETHERNET
    yield "mpls_over_gre", bytes(outer / GRE(proto=0x8847) / (bytes(MPLS(**label, s=1)) + inner)), ETHERNET
    ppp = struct.pack(">H", ppp_type) + inner
    pptp = struct.pack(">HHHHI", 0x3001, 0x880B, len(ppp) + 2, 7, 1) + b"\xff\x03" + ppp
    yield "gre_pptp", bytes(Ether(**MACS) / IP(**OUTER, proto=47) / pptp), ETHERNET
    yield "pppoe", bytes(Ether(**MACS) / PPPoE(sessionid=1) / ppp), ETHERNET
    yield "pppoe_tagged", bytes(Ether(**MACS) / Dot1Q(vlan=3) / PPPoE(sessionid=1) / ppp), ETHERNET
    yield "pppoe_compressed", bytes(Ether(**MACS) / PPPoE(sessionid=1) / ppp[1:]), ETHERNET
    yield "vntag", ether(0x8926, _tag(ether_type) + inner), ETHERNET
    yield "vntag_tagged", ether(0x8926, _tag(0x8100) + tagged[14:]), ETHERNET
    yield "vntag_in_vxlan", bytes(vxlan / ether(0x8926, _tag(ether_type) + inner)), ETHERNET
    yield "qinq", bytes(Ether(**MACS) / Dot1AD(vlan=3) / Dot1Q(vlan=4, type=ether_type) / inner), ETHERNET
    yield (
        "qinq_three",
        bytes(Ether(**MACS) / Dot1AD(vlan=3) / Dot1Q(vlan=4) / Dot1Q(vlan=5, type=ether_type) / inner),
        ETHERNET,
    )
    yield "qinq_old", ether(0x9100, struct.pack(">HHHH", 3, 0x8100, 4, ether_type) + inner), ETHERNET
    for family in (2,) if version == 4 else (24, 28, 30):
        yield f"null_{family}", struct.pack("<I", family) + inner, NULL
        yield f"null_big_endian_{family}", struct.pack(">I", family) + inner, NULL
        yield f"loop_{family}", struct.pack(">I", family) + inner, LOOP
    yield "ppp", ppp, PPP_LINK
    yield "ppp_with_address", b"\xff\x03" + ppp, PPP_LINK
    yield "ppp_compressed", ppp[1:], PPP_LINK
    yield "raw", inner, RAW
    yield f"raw_{version}", inner, 228 if version == 4 else 229
    yield "sll", bytes(CookedLinux(proto=ether_type)) + inner, SLL
    yield "sll_tagged", bytes(CookedLinux(proto=0x8100)) + struct.pack(">HH", 5, ether_type) + inner, SLL
    yield "sll2", bytes(CookedLinuxV2(proto=ether_type)) + inner, SLL2
    yield "sll2_tagged", bytes(CookedLinuxV2(proto=0x8100)) + struct.pack(">HH", 5, ether_type) + inner, SLL2
    # A mirrored overlay, and an overlay on labels.
    overlay = bytes(vxlan / frame)
    yield "vxlan_in_erspan2", bytes(outer / GRE(proto=0x88BE, seqnum_present=1) / (second + overlay)), ETHERNET
    yield "vxlan_in_vxlan", bytes(vxlan / overlay), ETHERNET


def cases(opcode: int) -> list[Case]:
    """Each encapsulation of an MRC or RC write, IPv4 and IPv6."""
    found = []
    for version in (4, 6):
        inner = bytes(rdma_write(version, opcode))
        for name, data, link_type in _frames(inner):
            found.append(Case(f"{name}-ipv{version}", data, inner, link_type, opcode))
    return found


def rocev1(opcode: int) -> bytes:
    """An RC or UD packet in RoCEv1: Ethernet type 0x8915, a GRH, no UDP; its ICRC by the text of IBTA A16."""
    layers = {0x0A: RETH(va=0x1000, rkey=7), 0x11: AETH(msn=3), 0x64: DETH(qkey=5, sqpn=6)}
    packet = BTH(opcode=opcode, dqp=0x11, psn=5) / layers.get(opcode, Raw(b""))
    packet /= Raw(b"" if opcode == 0x11 else PAYLOAD)
    transport = bytes(packet)[:-4]
    grh = bytes(IPv6(src="fe80::1", dst="fe80::2", nh=0x1B, plen=len(transport) + 4, hlim=64))
    covered = bytearray(grh + transport)
    covered[0] |= 0x0F
    for at in (1, 2, 3, 7, 40 + 4):
        covered[at] = 0xFF
    icrc = zlib.crc32(b"\xff" * 8 + bytes(covered)).to_bytes(4, "little")
    return bytes(Ether(**MACS, type=0x8915)) + grh + transport + icrc


def _truncated() -> bytes:
    """A mirror that keeps the headers of a packet alone, and says so (the T bit)."""
    frame = bytes(Ether(**MACS) / rdma_write(6, 0xCA))[:-20]
    second = bytes(ERSPAN_II(ver=1, vlan=5, session_id=100, t=1))
    gre = GRE(proto=0x88BE, seqnum_present=1, sequence_number=9)
    return bytes(Ether(**MACS) / IP(**OUTER) / gre / (second + frame))


ERSPAN_2_TRUNCATED = _truncated()
