# SPDX-License-Identifier: BSD-2-Clause
"""What a trimmer does to a packet (wire.md section 12), by bytes counted by hand, and what receivers say of it."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from trimmed_forms import CARRIAGES, SIZES, Carriage, Rewritten, cut, marked

from mrc.errors import CallerError
from mrc.layers import BTH, bind_to_udp
from mrc.wire.packet import decode_transport, is_trimmed
from mrc.wire.profile import WireProfile
from mrc.wire.trimming import trim

bind_to_udp()

# WRITE Only with TSETH: METH 4, TSETH 4, RETH 16, 64 bytes of payload, ICRC 4.
TRANSPORT = bytes.fromhex("ca00ffff00123456900000ff") + bytes(range(4)) + b"\0\5\0\1" + bytes(16) + bytes(64) + b"icrc"
LENGTH = 8 + len(TRANSPORT)


def udp() -> bytes:
    return bytes(UDP(sport=0xC001, dport=4791, len=LENGTH, chksum=0)) + TRANSPORT


def in_ipv6(inner: bytes, next_header: int, dscp: int) -> bytes:
    return bytes(IPv6(src="fd00::1", dst="fd00::2", tc=dscp << 2 | 2, nh=next_header, plen=len(inner))) + inner


@pytest.mark.parametrize(("last_hop", "codepoint"), [(False, 12), (True, 16)])
def test_in_srv6_mode_only_the_outer_length_and_codepoint_change(last_hop: bool, codepoint: int) -> None:
    """MRC-TRIM-03. The cut keeps IPv6 40, IPv6 40, UDP 8, BTH 12 and 8 bytes."""
    inner = in_ipv6(udp(), 17, 4)
    packet = in_ipv6(inner, 41, 4)
    cut = trim(packet, last_hop=last_hop)
    assert len(cut) == 40 + 40 + 8 + 12 + 8
    seen = IPv6(cut)
    assert (seen.tc >> 2, seen.tc & 3, seen.plen) == (codepoint, 2, 40 + 8 + 12 + 8)
    # Inner lengths keep their old value, and so does the inner codepoint.
    assert cut[40:] == inner[: 40 + 8 + 12 + 8]
    assert cut[8:40] == packet[8:40]


def test_behind_a_routing_header_the_same() -> None:
    """MRC-TRIM-03."""
    inner = in_ipv6(udp(), 17, 4)
    routing = bytes(IPv6ExtHdrSegmentRouting(nh=41, addresses=["fd00::3"], len=2, segleft=1, lastentry=0))
    cut = trim(in_ipv6(routing + inner, 43, 4))
    assert len(cut) == 40 + 24 + 40 + 8 + 12 + 8
    assert IPv6(cut).plen == len(cut) - 40
    assert cut[64:] == inner[:68]


def test_in_udp_mode_the_udp_length_changes_too() -> None:
    """MRC-TRIM-03."""
    cut = trim(in_ipv6(udp(), 17, 8))
    assert (IPv6(cut).plen, IPv6(cut).tc) == (28, 12 << 2 | 2)
    assert int.from_bytes(cut[44:46], "big") == 28
    assert cut[48:] == TRANSPORT[:20]


def test_over_ipv4_total_length_and_checksum_follow() -> None:
    """MRC-TRIM-03."""
    packet = bytes(IP(src="10.0.0.1", dst="10.0.0.2", tos=4 << 2 | 2, proto=17, flags="DF", len=20 + LENGTH)) + udp()
    cut = trim(packet)
    assert len(cut) == 20 + 8 + 12 + 8
    seen = IP(cut)
    assert (seen.len, seen.tos) == (48, 12 << 2 | 2)
    assert seen[UDP].len == 28
    assert (
        seen.chksum
        == IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2", tos=12 << 2 | 2, proto=17, flags="DF", len=48))).chksum
    )
    assert seen[BTH].psn == 0xFF


@pytest.mark.parametrize("source", ["0.0.0.1", "255.255.255.254", "255.255.0.0"])
def test_the_checksum_is_right_whatever_it_adds_up_to(source: str) -> None:
    """RFC 1071: a header whose checksum is right adds up to all ones, carries folded back."""
    packet = bytes(IP(src=source, dst="255.255.255.255", tos=4 << 2, id=0xFFFF, proto=17, len=20 + LENGTH)) + udp()
    header = trim(packet)[:20]
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, 20, 2))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF


def test_a_packet_that_ends_with_its_bth_only_gets_the_codepoint() -> None:
    bare = in_ipv6(bytes(UDP(sport=0xC001, dport=4791, len=20, chksum=0)) + TRANSPORT[:12], 17, 4)
    cut = trim(bare)
    assert (IPv6(cut).tc, cut[4:]) == (12 << 2 | 2, bare[4:])


def test_the_other_text_keeps_more() -> None:
    cut = trim(in_ipv6(udp(), 17, 4), WireProfile(trim_keeps_after_bth=24))
    assert cut[48:] == TRANSPORT[:36]


@pytest.mark.parametrize(
    "packet", [b"", b"\x60" + bytes(60), in_ipv6(b"x" * 40, 6, 4), in_ipv6(udp()[:12], 17, 4), b"\x45"]
)
def test_what_is_no_packet_of_ours_is_refused(packet: bytes) -> None:
    with pytest.raises(CallerError):
        trim(packet)


@pytest.mark.parametrize("carriage", CARRIAGES, ids=[each.name for each in CARRIAGES])
@pytest.mark.parametrize(("last_hop", "codepoint"), [(False, 12), (True, 16)])
def test_any_size_may_be_kept(carriage: Carriage, last_hop: bool, codepoint: int) -> None:
    """MRC-TRIM-01, MRC-TRIM-03: the outermost length, and the UDP length where there is no outer header."""
    tunnelled = carriage.inner > 0
    for kept in (size for size in SIZES if size >= carriage.bth + 12):
        got = trim(carriage.packet, last_hop=last_hop, kept_bytes=kept)
        expected = cut(carriage, kept, Rewritten(True, False, not tunnelled), codepoint)
        # Over IPv4 the header checksum follows, which the forms leave alone.
        assert (got[:10], got[12:]) == (expected[:10], expected[12:])


@pytest.mark.parametrize("carriage", CARRIAGES, ids=[each.name for each in CARRIAGES])
def test_what_is_small_enough_passes_uncut_with_the_codepoint(carriage: Carriage) -> None:
    """wire.md section 12: "packets that are smaller already pass uncut with the TRIMMED codepoint all the same".

    MRC-TRIM-09.
    """
    length = len(carriage.packet)
    for kept in (length, length + 1, 4096):
        got, expected = trim(carriage.packet, kept_bytes=kept), marked(carriage.packet, 12)
        assert (got[:10], got[12:]) == (expected[:10], expected[12:])


def test_less_than_the_bth_cannot_be_kept() -> None:
    """Outer and inner IPv6 40 each, UDP 8, BTH 12."""
    carriage = CARRIAGES[0]
    assert len(trim(carriage.packet, kept_bytes=100)) == 100
    with pytest.raises(CallerError, match="through the BTH, 100 bytes here, got 99"):
        trim(carriage.packet, kept_bytes=99)


def test_a_codepoint_and_old_lengths_or_a_wrong_icrc_make_a_trimmed_packet() -> None:
    """wire.md section 12: "or shorter than an IP or UDP length in it says, or its ICRC is wrong". MRC-TRIM-05."""
    transport = CARRIAGES[2].packet[48:]
    for dscp in range(64):
        codepoint = dscp in (12, 16)
        assert not is_trimmed(transport, dscp)
        assert is_trimmed(transport, dscp, lengths_say_more=True) is codepoint
        assert is_trimmed(transport, dscp, icrc_wrong=True) is codepoint
        assert is_trimmed(transport[:35], dscp) is codepoint
    assert not is_trimmed(b"\xff" + transport[1:], 12, icrc_wrong=True)
    assert not is_trimmed(transport[:11], 12, lengths_say_more=True)
    # Nothing behind the headers is an ICRC then.
    decoded = decode_transport(transport[:100], trimmed=True)
    assert (decoded.icrc, len(decoded.payload), decoded.malformed) == (None, 100 - 36, None)
