# SPDX-License-Identifier: BSD-2-Clause
"""The line a packet gets: who to whom, over which path, and what is wrong with it."""

from __future__ import annotations

import pytest
from capture_forms import ETHER, on_ethernet
from packet_vectors import PACKETS
from vector_forms import ipv6_packet, octets
from vectors import VECTORS

from mrc.capture.frames import Record
from mrc.capture.names import container_names, usid_name
from mrc.capture.summary import Summary, info
from mrc.capture.walk import walk

BY_NAME = {packet.name: packet.packet for packet in PACKETS}
SACK = ipv6_packet(next(vector for vector in VECTORS if vector.name == "sack_section_6_example").transport)


def line(data: bytes, link_type: int = 101) -> str:
    """One line with single spaces between its columns."""
    record = Record(0, data, len(data), link_type)
    return " ".join(Summary().line(3, record, walk(data, link_type, len(data))).split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "srv6_write",
            "3 0.000000 fd00::1 fd00::2 p1l0>p1s3>p1l1>p1h1 RDMA WRITE Only QP=0x2b0222 PSN=2571 [AckReq] MSN=258 "
            "TS=43981 VA=0xfedcba9876543210 Len=2 Payload=2",
        ),
        (
            "srv6_srh_write",
            "3 0.000000 fd00::1 fd00::2 p1l0>p1s3>p1l1>p1h1 RDMA WRITE Only QP=0x2b0222 PSN=2571 [AckReq] MSN=258 "
            "TS=43981 VA=0xfedcba9876543210 Len=2 Payload=2",
        ),
        (
            "srv6_trimmed",
            "3 0.000000 fd00::1 fd00::2 p1l0>p1s3>p1l1>p1h1 RDMA WRITE Only QP=0x2b0222 PSN=2571 [AckReq] MSN=258 "
            "TS=43981 [trimmed]",
        ),
        # Flow label 00100, source port 3: the EV's halves. IPv4 has the low one only.
        (
            "ipv6_write",
            "3 0.000000 fd00::1 fd00::2 EV=0x01000003 RDMA WRITE Only QP=0x2b0222 PSN=2571 [AckReq] MSN=258 TS=43981 "
            "VA=0xfedcba9876543210 Len=2 Payload=2",
        ),
        ("ipv4_acknowledge", "3 0.000000 192.0.2.1 192.0.2.2 EV=0x00000003 Acknowledge QP=0x1a0111 PSN=11 ACK MSN=3"),
    ],
)
def test_lines(name: str, said: str) -> None:
    assert line(BY_NAME[name]) == said


def test_a_path_shrinks_as_switches_shift_it() -> None:
    """Section 11's own example, at the spine's input and at the host."""
    packet = BY_NAME["srv6_write"]
    at_spine = packet[:24] + octets("5f000000 2103 1101 4101 0000 0000 0000") + packet[40:]
    at_host = packet[:24] + octets("5f000000 4101 0000 0000 0000 0000 0000") + packet[40:]
    assert line(at_spine).split()[4] == "p1s3>p1l1>p1h1"
    assert line(at_host).split()[4] == "p1h1"


def test_names_of_usids() -> None:
    assert [usid_name(usid) for usid in (0x1000, 0x1FFF, 0x2A07, 0x4000, 0x4F09, 0x5000, 0x3001, 0xFFFF)] == [
        *("p0l0", "p15l255", "p10s7", "p0h0", "p15h9", "5000", "3001", "ffff")
    ]
    assert container_names(octets("5f000000 1100 2103 1101 4101 4202 4303")) == [
        *("p1l0", "p1s3", "p1l1", "p1h1", "p2h2", "p3h3")
    ]
    assert container_names(octets("fd000000" + "0" * 24)) is None


def test_other_outer_destinations_are_shown_as_they_are() -> None:
    packet = BY_NAME["srv6_write"]
    assert line(packet[:24] + octets("fd000000" + "0" * 23 + "9") + packet[40:]).split()[4] == "fd00::9"


def test_a_wrong_icrc_is_marked() -> None:
    assert line(SACK).endswith("bitmap=+1:0x76 ooo=5")
    assert line(SACK[:-1] + bytes([SACK[-1] ^ 1])).endswith("bitmap=+1:0x76 ooo=5 [ICRC wrong]")


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (ETHER + octets("0806") + bytes(28), "ARP Len=28"),
        (ETHER + octets("8100 0001 88b5") + bytes(4), "Ethernet type 0x88b5 Len=4"),
        (on_ethernet(octets("60000000 0004 3a 40") + bytes(36)), "ICMPv6 Len=4"),
        (
            on_ethernet(octets("60000000 000a 11 40") + bytes(32) + octets("12b7 0035 000a 0000 ab cd")),
            "UDP 4791 > 53 Len=2",
        ),
        (ETHER[:5], "Length=5 [malformed: short_header: ether takes 14 bytes, 5 are left]"),
        (on_ethernet(SACK[:50]), "RoCEv2 Payload=2 [malformed: short_packet: 50 bytes less than the IPv6 length says]"),
    ],
)
def test_what_is_no_roce_and_what_is_broken(frame: bytes, said: str) -> None:
    assert info(walk(frame, 1, len(frame))) == said


def test_columns_grow_and_times_count_from_the_first_packet() -> None:
    summary = Summary()
    lines = []
    for number, (packet, time_ns) in enumerate(
        [(BY_NAME["ipv6_write"], 10**18 + 5000), (BY_NAME["srv6_write"], 10**18)]
    ):
        record = Record(time_ns, packet, len(packet), 229)
        lines.append(summary.line(number + 1, record, walk(packet, 229, len(packet))))
    assert lines[0].startswith("     1     0.000000  fd00::1  fd00::2      EV=0x01000003  RDMA WRITE")
    assert lines[1].startswith("     2    -0.000005  fd00::1  fd00::2      p1l0>p1s3>p1l1>p1h1  RDMA WRITE")
    assert summary.heading().index("summary") == lines[1].index("RDMA")
    untimed = summary.line(3, Record(None, SACK, len(SACK), 229), walk(SACK, 229, len(SACK)))
    assert untimed.split()[:2] == ["3", "-"]
