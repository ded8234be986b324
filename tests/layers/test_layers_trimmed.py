# SPDX-License-Identifier: BSD-2-Clause
"""Trimmed packets of every kept size as Scapy shows them (wire.md section 12): no ICRC, and the same bytes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from trimmed_forms import CARRIAGES, EVERY_REWRITING, SIZES, Carriage, cut, marked

from mrc.layers import BTH, ICRC, METH, RETH, check_icrc, use_wire_profile
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

every_carriage = pytest.mark.parametrize("carriage", CARRIAGES, ids=[each.name for each in CARRIAGES])


@pytest.fixture
def other_codepoints() -> Iterator[None]:
    use_wire_profile(WireProfile(dscp_trimmed=48, dscp_trimmed_lasthop=50))
    yield
    use_wire_profile(DEFAULT_WIRE_PROFILE)


def dissected(data: bytes) -> Packet:
    return (IP if data[0] >> 4 == 4 else IPv6)(data)


@every_carriage
@pytest.mark.parametrize("dscp", [12, 16])
def test_whatever_is_kept_and_whatever_the_lengths_say(carriage: Carriage, dscp: int) -> None:
    """MRC-TRIM-04, MRC-TRIM-05."""
    least = carriage.bth + 16
    for kept in (least, *(size for size in SIZES if size > least), len(carriage.packet) - 1):
        for rewritten in EVERY_REWRITING:
            data = cut(carriage, kept, rewritten, dscp)
            packet = dissected(data)
            assert ICRC not in packet, (kept, rewritten)
            assert (packet[BTH].psn, packet[METH].msn) == (0xFF, 7)
            assert check_icrc(packet) is None
            # Where TSETH and RETH are there: BTH 12, METH 4, TSETH 4, RETH 16.
            if kept >= carriage.bth + 36:
                assert packet[RETH].dmalen == 1024
                assert len(packet[Raw].load if Raw in packet else b"") == kept - carriage.bth - 36
            assert bytes(packet) == data
            # Nothing is added when it is built anew either.
            packet[BTH].psn = 9
            built = bytes(packet)
            assert (len(built), built[carriage.bth + 9 : carriage.bth + 12]) == (len(data), b"\0\0\x09")


@every_carriage
def test_what_passed_uncut_has_its_icrc(carriage: Carriage) -> None:
    """MRC-TRIM-06."""
    data = marked(carriage.packet, 12)
    packet = dissected(data)
    assert check_icrc(packet) is True
    assert packet[Raw].load == bytes(range(256)) * 4
    # A whole packet built anew gets a right ICRC.
    packet[BTH].psn = 9
    del packet[ICRC].crc
    assert check_icrc(dissected(bytes(packet))) is True
    assert len(bytes(packet)) == len(data)


def test_the_codepoints_are_the_profiles(other_codepoints: None) -> None:
    """MRC-TRIM-08."""
    for dscp, trimmed in ((48, True), (50, True), (12, False), (16, False)):
        packet = dissected(cut(CARRIAGES[2], 256, EVERY_REWRITING[-1], dscp))
        assert (ICRC not in packet) is trimmed


def test_a_packet_made_by_hand_is_trimmed_where_its_udp_length_says_so() -> None:
    """The length that a trimmer leaves: of the whole packet, or of what is left, 8 + 12 + 4 + 16 + 100."""
    left = BTH(psn=5) / METH(msn=1) / RETH(dmalen=1024) / Raw(bytes(100))
    head = IPv6(src="fc00::1", dst="fc00::2", tc=12 << 2)
    for length in (8 + 12 + 4 + 16 + 1024 + 4, 8 + 12 + 4 + 16 + 100):
        assert len(bytes(head / UDP(sport=3, len=length) / left)) == 40 + 8 + 12 + 4 + 16 + 100
    # Without it, or with that of a whole packet, an ICRC follows.
    for udp in (UDP(sport=3), UDP(sport=3, len=8 + 12 + 4 + 16 + 100 + 4)):
        assert len(bytes(head / udp / left)) == 40 + 8 + 12 + 4 + 16 + 100 + 4
