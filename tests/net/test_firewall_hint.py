# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a peer of which no packet ever arrives: port or next header, both ends' addresses, how to check."""

from __future__ import annotations

import pytest

from mrc.fabric import Fabric
from mrc.fabric.host_view import FabricPort
from mrc.net.firewall_hint import perhaps_blocked
from mrc.net.negotiation import NodeDescription


def host(mode: str, *addresses: str) -> Fabric:
    ports = tuple(FabricPort(plane, "eth0", address, 0, 1) for plane, address in enumerate(addresses))
    return Fabric("host", 0, 1500, ports, mode=mode)


@pytest.mark.parametrize(
    ("mode", "blocked", "shown"),
    [
        ("udp", "UDP port 4791 is perhaps blocked", "`tcpdump -ni any udp port 4791`"),
        ("stev", "UDP port 4791 is perhaps blocked", "`tcpdump -ni any udp port 4791`"),
        # wire.md section 11: IPv6 in IPv6 is next header 41; with a segment routing header that is 43, then 41.
        ("srv6", "IPv6 next header 41 ", "`tcpdump -ni any ip6 proto 41`"),
        ("srv6-srh", "IPv6 next header 43 ", "`tcpdump -ni any ip6 proto 43`"),
    ],
)
def test_each_mode_names_what_carries_its_packets(mode: str, blocked: str, shown: str) -> None:
    said = perhaps_blocked(host(mode, "fd00::1"), 4791, NodeDescription.of(host(mode, "fd00::2")))
    assert said.startswith(blocked)
    assert "a firewall between fd00::1 and fd00::2, in one direction or in both" in said
    assert shown in said


def test_common_planes_are_named_and_of_many_the_first() -> None:
    ours = host("udp", *(f"10.{plane}.0.1" for plane in range(6)))
    two = perhaps_blocked(ours, 4971, NodeDescription.of(host("udp", "10.0.0.2", "10.1.0.2")))
    assert two.startswith("UDP port 4971 ")
    assert "between 10.0.0.1 and 10.0.0.2 or 10.1.0.1 and 10.1.0.2, in" in two
    many = perhaps_blocked(ours, 4791, NodeDescription.of(host("udp", *(f"10.{plane}.0.2" for plane in range(6)))))
    assert "10.3.0.1 and 10.3.0.2 or on other planes, in" in many
    assert "10.4.0.1" not in many
