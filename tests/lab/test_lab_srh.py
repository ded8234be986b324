# SPDX-License-Identifier: BSD-2-Clause
"""A segment routing header through the kernel's switches: two containers, one after the other (wire.md section 11)."""

from __future__ import annotations

import ipaddress
import socket
import struct

import pytest
from lab_wire import IPPROTO_IPV6, Tap, Wire, inner_packet

from mrc.lab import Lab

pytestmark = pytest.mark.root

ROUTING, SRH_TYPE = 43, 4


def _through_two_containers(source: str, first: str, following: str, inner: bytes) -> bytes:
    """IPv6 to the first container, an SRH that lists the one that follows (RFC 8754 section 2), the inner packet."""
    srh = struct.pack("!BBBBBBH", IPPROTO_IPV6, 2, SRH_TYPE, 1, 0, 0, 0) + ipaddress.IPv6Address(following).packed
    header = struct.pack("!IHBB", 6 << 28, len(srh) + len(inner), ROUTING, 64)
    return header + ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(first).packed + srh + inner


def _next(tap: Tap, inner: bytes) -> tuple[str, int]:
    """Outer destination and segments left of the next packet that carries `inner` behind an SRH."""
    while True:
        packet = tap.packet()
        if len(packet) > 64 and packet[6] == ROUTING and packet[64:] == inner:
            return str(ipaddress.IPv6Address(packet[24:40])), packet[43]


def test_the_end_of_the_first_container_takes_the_next_from_the_header(lab: Lab, wire: Wire) -> None:
    """Plane 0, spine 1, leaf 0 to leaf 1, whose uSID is the container's last; the host port stands in the SRH.

    MRC-SRV6-12.
    """
    sender = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW))
    at_spine, at_leaf, at_host = wire.tap("p0s1", "p0l0"), wire.tap("p0l1", "p0s1"), wire.tap("h1", "p0")
    inner = inner_packet(lab.addresses("h0")[0], lab.addresses("h1")[0], b"two containers")
    first = "5f00:0:1000:2001:1001::"
    sender.sendto(_through_two_containers(lab.addresses("h0")[0], first, "5f00:0:4001::", inner), (first, 0))
    sender.close()
    assert _next(at_spine, inner) == ("5f00:0:2001:1001::", 1)
    assert _next(at_leaf, inner) == ("5f00:0:1001::", 1)
    assert _next(at_host, inner) == ("5f00:0:4001::", 0)
