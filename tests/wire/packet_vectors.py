# SPDX-License-Identifier: BSD-2-Clause
"""Whole packets, from the outermost IP header to the ICRC, with every byte of the headers written out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vector_forms import Layers, Vector, octets, with_icrc
from vectors import STANDARD_VECTORS, VECTORS


@dataclass(frozen=True, slots=True)
class PacketVector:
    """A whole packet from its outermost IP header on; `transport` lies at `offset`, its layers are those of `vector`.

    `trimmed` packets end before their opcode's headers do and have no ICRC.
    """

    name: str
    packet: bytes
    vector: Vector
    offset: int
    layers: Layers
    trimmed: bool = False


_BY_NAME = {vector.name: vector for vector in (*VECTORS, *STANDARD_VECTORS)}
_ACK = _BY_NAME["acknowledge"]
_WRITE = _BY_NAME["write_only_pad_2_timestamp"]


def _layer(name: str, **fields: Any) -> dict[str, Any]:
    return {"layer": name, "fields": fields}


# BTH 12 + METH 4 + TSETH 4 + RETH 16 + payload 2 + pad 2 = 40 = 28 hex; with UDP 8 and ICRC 4: 52 = 34 hex.
_INNER = with_icrc(
    octets(
        """61200100 0034 11 40                            # traffic class 4 << 2 | ECT(0) 2 = 12, flow label 100
           fd000000000000000000000000000001               # source
           fd000000000000000000000000000002               # destination
           0003 12b7 0034 0000                            # UDP: EV low half 3, 4791 = 12b7, length 52, checksum 0"""
    )
    + _WRITE.transport
)
_INNER_LAYERS: Layers = [
    _layer("ipv6", tc=0x12, fl=0x100, plen=52, nh=17, hlim=64, src="fd00::1", dst="fd00::2"),
    _layer("udp", sport=3, dport=4791, len=52, chksum=0),
]

PACKETS: tuple[PacketVector, ...] = (
    # One's complement sum of the header, a word at a time: 45b8, + 0030 = 45e8, + 4000 = 85e8, + 4011 = c5f9, + c000 =
    # 185f9 -> 85fa, + 0201 = 87fb, + c000 = 147fb -> 47fc, + 0202 = 49fe. Its complement is b601.
    PacketVector(
        "ipv4_acknowledge",
        with_icrc(
            octets(
                """45 b8 0030 0000 4000 40 11 b601        # DSCP 46 << 2 = b8; length 20 + 28 = 48; DF; TTL 64
                   c0000201 c0000202                      # 192.0.2.1 to 192.0.2.2
                   0003 12b7 001c 0000                    # UDP length 8 + 12 + 4 + 4 = 28 = 1c"""
            )
            + _ACK.transport
        ),
        _ACK,
        28,
        [
            _layer("ipv4", tos=0xB8, len=48, id=0, ttl=64, proto=17, chksum=0xB601, src="192.0.2.1", dst="192.0.2.2"),
            _layer("udp", sport=3, dport=4791, len=28, chksum=0),
        ],
    ),
    PacketVector("ipv6_write", _INNER, _WRITE, 48, _INNER_LAYERS),
    # Section 11's address: plane 1, uplink 3, leaf 0 to host 1 on leaf 1. Payload length: 40 + 52 = 92 = 5c.
    PacketVector(
        "srv6_write",
        octets(
            """61200000 005c 29 40                        # next header 41 = 29
               fd000000000000000000000000000001
               5f000000110021031101410100000000"""
        )
        + _INNER,
        _WRITE,
        88,
        [
            _layer("ipv6", tc=0x12, fl=0, plen=92, nh=41, hlim=64, src="fd00::1", dst="5f00:0:1100:2103:1101:4101::"),
            *_INNER_LAYERS,
        ],
    ),
    # A one-segment SRH: 8 + 16 = 24 bytes, header length 24 / 8 - 1 = 2. Payload length: 24 + 92 = 116 = 74.
    PacketVector(
        "srv6_srh_write",
        octets(
            """61200000 0074 2b 40                        # next header 43 = 2b
               fd000000000000000000000000000001
               5f000000110021031101000000000000           # the first container
               29 02 04 01 00 00 0000                     # next 41, length 2, type 4, segments left 1, last entry 0
               5f000000410100000000000000000000           # the container that follows"""
        )
        + _INNER,
        _WRITE,
        112,
        [
            _layer("ipv6", tc=0x12, fl=0, plen=116, nh=43, hlim=64, src="fd00::1", dst="5f00:0:1100:2103:1101::"),
            _layer("srh", nh=41, len=2, type=4, segleft=1, lastentry=0, flags=0, tag=0, segments=["5f00:0:4101::"]),
            *_INNER_LAYERS,
        ],
    ),
    # Trimmed in the fabric: BTH 12 + 8 after it kept, outermost DSCP 12 << 2 | 2 = 32, outermost length rewritten:
    # 40 + 8 + 12 + 8 = 68 = 44; the inner lengths keep their old value.
    PacketVector(
        "srv6_trimmed",
        octets(
            """63200000 0044 29 40
               fd000000000000000000000000000001
               5f000000110021031101410100000000"""
        )
        + _INNER[: 48 + 12 + 8],
        _WRITE,
        88,
        [
            _layer("ipv6", tc=0x32, fl=0, plen=68, nh=41, hlim=64, src="fd00::1", dst="5f00:0:1100:2103:1101:4101::"),
            *_INNER_LAYERS,
        ],
        trimmed=True,
    ),
)
