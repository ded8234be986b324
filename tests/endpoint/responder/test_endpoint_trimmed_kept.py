# SPDX-License-Identifier: BSD-2-Clause
"""Trimmed packets of every kept size, as switches leave them (wire.md section 12), and those that pass uncut.

Every packet is laid out by hand: a switch cuts it to its configured size and rewrites the outermost codepoint; which of
the lengths in it follow is the switch's choice.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from dataclasses import dataclass

import pytest
from hand_peer import ECT0, NACK, HandPeer, Sent, of

from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.wire.profile import WireProfile

TRIMMED, TRIMMED_LASTHOP = 0x01, 0x02
DSCP_TRIMMABLE, DSCP_TRIMMED = 4, 12
PMTU = 1024
CONFIG = QpConfig(path_mtu=PMTU)
IPV4, IPV6, UDP, BTH, ICRC = 20, 40, 8, 12, 4
PEER_IPV4, LOCAL_IPV4 = (int(ipaddress.IPv4Address(text)) for text in ("10.0.0.2", "10.0.0.1"))
MAPPED = 0xFFFF << 32


@dataclass(frozen=True)
class Carriage:
    """How a packet travels: bytes of outer headers, which the endpoint is not given, and its own IP header."""

    outer: int = 0
    ipv4: bool = False

    @property
    def ip(self) -> int:
        return IPV4 if self.ipv4 else IPV6

    @property
    def bth_at(self) -> int:
        return self.outer + self.ip + UDP


# An outer IPv6 header and a routing header of one segment are taken off by the kernel.
CARRIAGES = {
    "srv6": Carriage(outer=40),
    "srv6-srh": Carriage(outer=40 + 24),
    "udp or stev, IPv6": Carriage(),
    "udp or stev, IPv4": Carriage(ipv4=True),
}


def answering(wire: WireProfile | None = None) -> HandPeer:
    hand = HandPeer(
        CONFIG,
        capabilities=Capability.TRIM_NACK,
        endpoint=EndpointConfig(seed=1, wire=wire or WireProfile()),
    )
    hand.qp.arrivals.sources.add(1, MAPPED | PEER_IPV4)
    return hand


def over_ipv4(packet: bytes) -> bytes:
    """The UDP datagram moved into IPv4, its ICRC computed over that header (wire.md section 9)."""
    rest = packet[IPV6:-ICRC]
    head = struct.pack(
        ">BBHHHBBHII", 0x45, 4 << 2 | ECT0, IPV4 + len(rest) + ICRC, 0, 0x4000, 64, 17, 0, PEER_IPV4, LOCAL_IPV4
    )
    masked = bytearray(head + rest)
    masked[1] = masked[8] = masked[10] = masked[11] = 0xFF  # ToS, TTL, header checksum
    masked[26] = masked[27] = 0xFF  # UDP checksum
    masked[32] = 0xFF  # BTH byte 4
    return head + rest + zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def with_codepoint(packet: bytes, dscp: int) -> bytes:
    changed = bytearray(packet)
    if changed[0] >> 4 == 4:
        changed[1] = dscp << 2 | ECT0
    else:
        word = int.from_bytes(changed[:4], "big") & 0xF00FFFFF | (dscp << 2 | ECT0) << 20
        changed[:4] = word.to_bytes(4, "big")
    return bytes(changed)


def cut(packet: bytes, carriage: Carriage, kept: int, lengths: tuple[bool, bool]) -> bytes:
    """What is left, from the IP header in front of UDP on, when `kept` bytes from the outermost header on are kept."""
    left = bytearray(packet[: kept - carriage.outer])
    ip_rewritten, udp_rewritten = lengths
    if ip_rewritten and carriage.ipv4:
        left[2:4] = len(left).to_bytes(2, "big")
    elif ip_rewritten:
        left[4:6] = (len(left) - IPV6).to_bytes(2, "big")
    if udp_rewritten:
        at = carriage.ip + 4
        left[at : at + 2] = (len(left) - carriage.ip).to_bytes(2, "big")
    return bytes(left)


def through_a_switch(
    hand: HandPeer, carriage: Carriage, packet: bytes, kept: int, lengths: tuple[bool, bool], dscp: int
) -> list[Sent]:
    """The answers to a packet that a switch cut and gave this codepoint, on the outermost header alone."""
    if carriage.ipv4:
        packet = over_ipv4(packet)
    left = cut(packet, carriage, kept, lengths)
    if carriage.outer:
        return hand.exchange(left, traffic_class=[dscp << 2 | ECT0])
    return hand.exchange(with_codepoint(left, dscp), port=int(carriage.ipv4))


def test_cut_and_whole_and_broken_packets_of_one_batch_are_told_apart() -> None:
    """Many at once, most with consistent lengths: only the ICRC tells which of them are whole."""
    carriage, hand = CARRIAGES["srv6"], answering()
    packets, classes = [], []
    for number in range(40):
        packet = hand.request(number, bytes((number + 1,)) * 256, va=0x7F0000000000 + 256 * number)
        kind = number % 4
        if kind == 1:  # cut, its lengths rewritten
            packet = cut(packet, carriage, 256, (True, True))
        elif kind == 2:  # damaged on a path that does not trim
            packet = packet[:-1] + bytes((packet[-1] ^ 1,))
        packets.append(packet)
        classes.append((DSCP_TRIMMABLE if kind in (0, 2) else DSCP_TRIMMED) << 2 | ECT0)
    sent = hand.exchange(*packets, traffic_class=classes)
    assert [nack["neth"]["nack_psn"] - hand.peer_first_psn for nack in of(sent, NACK)] == list(range(1, 40, 4))
    counted = hand.counters
    assert (counted["trimmed_received"], counted["bad_icrc"], counted["requests_received"]) == (10, 10, 20)
    for number in range(40):
        placed = bytes(hand.buffer[256 * number : 256 * (number + 1)])
        assert placed == (bytes((number + 1,)) * 256 if number % 4 in (0, 3) else bytes(256)), number


def test_one_codepoint_for_both_says_nothing_of_the_last_hop() -> None:
    """A fabric whose switches have one codepoint: NACK TRIMMED, so that the EV is skipped."""
    hand = answering(WireProfile(dscp_trimmed=48, dscp_trimmed_lasthop=48))
    packet = hand.request(3, bytes(PMTU))
    (nack,) = through_a_switch(hand, CARRIAGES["srv6"], packet, 256, (False, False), 48)
    assert nack["neth"]["reason"] == TRIMMED


@pytest.mark.parametrize(("trimmed", "lasthop"), [(9, 11), (48, 50), (11, 9)])
def test_the_codepoints_are_configuration(trimmed: int, lasthop: int) -> None:
    """wire.md section 12: "9, 11, 12 and 48 are all seen". MRC-TRIM-08."""
    hand = answering(WireProfile(dscp_trimmed=trimmed, dscp_trimmed_lasthop=lasthop))
    carriage = CARRIAGES["srv6"]
    for number, (dscp, reason) in enumerate(((trimmed, TRIMMED), (lasthop, TRIMMED_LASTHOP)), 1):
        (nack,) = through_a_switch(hand, carriage, hand.request(number, bytes(PMTU)), 256, (False, False), dscp)
        assert (nack["neth"]["reason"], nack["neth"]["nack_psn"]) == (reason, hand.peer_first_psn + number)
    assert through_a_switch(hand, carriage, hand.request(3, bytes(PMTU)), 256, (False, False), DSCP_TRIMMED) == []
    assert hand.counters == {"trimmed_received": 2, "nacks_sent": 2, "bad_length": 1}
