# SPDX-License-Identifier: BSD-2-Clause
"""A write of a kilobyte in every way of carrying it, and what switches make of it (wire.md section 12), by hand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from vector_forms import octets, with_icrc

# WRITE Only with TSETH, PSN ff: BTH 12, METH 4, TSETH 4, RETH 16 (DMALen 400 hex), 1,024 bytes of payload.
TRANSPORT = (
    octets(
        """ca 00 ffff 00 123456 10 0000ff          # BTH: ts is bit 4 of byte 8
       0000 0007                               # METH: message 7
       abcd 0001                               # TSETH
       00000000 00001000 00000042 00000400     # RETH"""
    )
    + bytes(range(256)) * 4
)
# UDP 8 + 36 + 1,024 + ICRC 4 = 1,072 = 430 hex.
_UDP = octets("0003 12b7 0430 0000")
_INNER = with_icrc(
    octets(
        """61200100 0430 11 40                 # traffic class 4 << 2 | ECT(0) 2 = 12 hex, flow label 100
           fd000000000000000000000000000001
           fd000000000000000000000000000002"""
    )
    + _UDP
    + TRANSPORT
)
# 40 + 1,072 = 1,112 = 458 hex; with a routing header of 24: 1,136 = 470 hex.
_OUTER = octets(
    """61200100 0458 29 40
       fd0000000000000000000000000000aa
       5f00000010012101110141010000 0000"""
)
_OUTER_SRH = octets(
    """61200100 0470 2b 40
       fd0000000000000000000000000000aa
       5f00000010012101110141010000 0000
       29 02 04 01 00 00 0000                  # SRH: next 41, 24 bytes, type 4, one segment left
       5f000000400100000000000000000000"""
)
# 20 + 1,072 = 1,092 = 444 hex; ToS 12, "don't fragment", addresses 10.0.0.2 and 10.0.0.1, checksum 2295 (sum dd6a).
_IPV4 = octets("45 12 0444 0000 4000 40 11 2295 0a000002 0a000001")


@dataclass(frozen=True)
class Carriage:
    """`packet` begins with its outermost IP header; `inner` is where the one in front of UDP lies, `udp` where UDP."""

    name: str
    packet: bytes
    inner: int
    udp: int

    @property
    def bth(self) -> int:
        return self.udp + 8


CARRIAGES = (
    Carriage("srv6", _OUTER + _INNER, 40, 80),
    Carriage("srv6-srh", _OUTER_SRH + _INNER, 64, 104),
    Carriage("ipv6", _INNER, 0, 40),
    Carriage("ipv4", with_icrc(_IPV4 + _UDP + TRANSPORT), 0, 20),
)
# What switches keep, from the outermost IP header on. What ends before the METH cannot be named by anybody.
SIZES = (88, 128, 200, 256, 512, 1010, 1024)


@dataclass(frozen=True)
class Rewritten:
    """Which lengths a switch makes right: the outermost header's, that of the IP header in front of UDP, UDP's."""

    outer: bool
    inner: bool
    udp: bool


EVERY_REWRITING = tuple(Rewritten(*choice) for choice in product((False, True), repeat=3))


def marked(packet: bytes, dscp: int) -> bytes:
    """The codepoint on the outermost header, ECN bits as they were."""
    changed = bytearray(packet)
    if changed[0] >> 4 == 4:
        changed[1] = dscp << 2 | changed[1] & 3
    else:
        word = int.from_bytes(changed[:2], "big") & 0xF03F | dscp << 6
        changed[:2] = word.to_bytes(2, "big")
    return bytes(changed)


def cut(carriage: Carriage, kept: int, rewritten: Rewritten, dscp: int = 12) -> bytes:
    """What a switch leaves: `kept` bytes, the codepoint, and of the lengths those that it makes right."""
    left = bytearray(marked(carriage.packet[:kept], dscp))
    for at, wanted in ((0, rewritten.outer), (carriage.inner, rewritten.inner)):
        if wanted and left[at] >> 4 == 4:
            left[at + 2 : at + 4] = (len(left) - at).to_bytes(2, "big")
        elif wanted:
            left[at + 4 : at + 6] = (len(left) - at - 40).to_bytes(2, "big")
    if rewritten.udp:
        left[carriage.udp + 4 : carriage.udp + 6] = (len(left) - carriage.udp).to_bytes(2, "big")
    return bytes(left)
