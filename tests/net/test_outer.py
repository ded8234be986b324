# SPDX-License-Identifier: BSD-2-Clause
"""The outer IPv6 header of SRv6 mode as bytes written by hand from wire.md sections 1, 11 and 12 and RFC 8754."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrc.net.outer import OuterHeaders
from mrc.net.ports import SRV6, Framing
from mrc.wire.transmit_batch import TransmitBatch

PORTS = ("fd4d:5243::1", "fd4d:5243:1::1")
WAYS = ("5f00:0:1000:2001:1001:4001::", "5f00:0:1100:2103:1101:4101::")
# Of each packet: the port, bytes of its headers, payload and trailer, and its traffic class: DSCP 4 and 8 with ECT(0).
PACKETS = ((0, 96, 4096, 4, 4 << 2 | 2), (1, 96, 61, 7, 8 << 2 | 2), (1, 72, 0, 4, 46 << 2))


@dataclass
class _Port:
    port: int
    local_address: bytes
    framing: Framing = SRV6


def opened() -> list[_Port]:
    return [_Port(number, ipaddress.IPv6Address(address).packed) for number, address in enumerate(PORTS)]


def batch_of(packets: Sequence[tuple[int, int, int, int, int]]) -> TransmitBatch:
    batch = TransmitBatch(16)
    for row, (port, header, payload, trailer, traffic_class) in enumerate(packets):
        batch.port[row], batch.header_length[row], batch.payload_length[row] = port, header, payload
        batch.trailer_length[row], batch.traffic_class[row] = trailer, traffic_class
        batch.destination[row, 8:24] = np.frombuffer(ipaddress.IPv6Address(WAYS[port]).packed, np.uint8)
    batch.count = len(packets)
    return batch


def written(*, srh: bool) -> OuterHeaders:
    outer = OuterHeaders(opened(), batch_of(PACKETS), srh=srh)  # type: ignore[arg-type]
    for row in range(len(PACKETS)):
        outer.write(row)
    return outer


def test_headers_of_one_container() -> None:
    """MRC-SRV6-01: version 6, traffic class, flow label 0; length; next header 41; hop limit 64; port; container."""
    outer = written(srh=False)
    assert [bytes(row).hex(" ", 8) for row in outer.rows[:3]] == [
        "6120000010642940 fd4d524300000000 0000000000000001 5f00000010002001 1001400100000000",
        "6220000000a42940 fd4d524300010000 0000000000000001 5f00000011002103 1101410100000000",
        "6b800000004c2940 fd4d524300010000 0000000000000001 5f00000011002103 1101410100000000",
    ]
    assert [bytes(row[8:24]).hex() for row in outer.destinations[:2]] == [
        "5f000000100020011001400100000000",
        "5f000000110021031101410100000000",
    ]


def test_headers_of_two_containers() -> None:
    """MRC-SRV6-11, MRC-SRV6-12: next header 43 and 24 bytes more; the host port moves into the routing header: next
    header 41, length 2, type 4, segments left 1, last entry 0, flags and tag 0, one segment."""
    outer = written(srh=True)
    assert [bytes(row).hex(" ", 8) for row in outer.rows[:2]] == [
        "61200000107c2b40 fd4d524300000000 0000000000000001 5f00000010002001 1001000000000000 "
        "2902040100000000 5f00000040010000 0000000000000000",
        "6220000000bc2b40 fd4d524300010000 0000000000000001 5f00000011002103 1101000000000000 "
        "2902040100000000 5f00000041010000 0000000000000000",
    ]
    assert bytes(outer.destinations[0, 8:24]).hex() == "5f000000100020011001000000000000"


def test_what_the_last_batch_had_is_gone() -> None:
    batch = batch_of(PACKETS)
    outer = OuterHeaders(opened(), batch, srh=True)  # type: ignore[arg-type]
    for row in range(3):
        outer.write(row)
    batch.port[0], batch.traffic_class[0], batch.payload_length[0] = 1, 0, 0
    batch.destination[0, 8:24] = batch.destination[1, 8:24]
    outer.write(0)
    assert bytes(outer.rows[0]).hex(" ", 8).startswith("60000000007c2b40 fd4d524300010000")
    assert bytes(outer.rows[0, 24:]).hex() == bytes(outer.rows[1, 24:]).hex()
