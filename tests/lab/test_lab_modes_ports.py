# SPDX-License-Identifier: BSD-2-Clause
"""An endpoint's own ports with a segment routing header, across the kernel's switches: what is sent, what arrives."""

from __future__ import annotations

import ipaddress
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from lab_modes import ROUTING
from lab_wire import IPPROTO_IPV6, Wire, inner_packet
from patience import PATIENCE_S

from mrc.endpoint.paths.addressing import PlanePair, srv6_path
from mrc.errors import SystemRefused
from mrc.fabric import Clos, Fabric
from mrc.lab import Lab
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.mtu import FullPackets
from mrc.net.sockets import Srv6Port
from mrc.wire.fields import ACK
from mrc.wire.frames import Frames
from mrc.wire.rows import HEADER_ROOM
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate

pytestmark = pytest.mark.root

SRH_AND_OUTER = 64
ROOM = 4400


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str]) -> Iterator[Lab]:
    with Lab.up(lab_name("srh-ports"), Clos(mode="srv6-srh")) as built:
        yield built


Opened = Callable[[str], list[Srv6Port]]


@pytest.fixture
def opened(lab: Lab) -> Iterator[Opened]:
    """Opens the ports of a host as an endpoint does."""
    ports: list[Srv6Port] = []

    def of(host: str) -> list[Srv6Port]:
        fabric = Fabric.load(lab.fabric_path(host))
        full = FullPackets(4096, SRH_AND_OUTER + HEADER_ROOM)
        for number, port in enumerate(fabric.ports):
            ports.append(lab.inside(host, partial(Srv6Port, number, port, full, srh=True)))
        return ports[-len(fabric.ports) :]

    yield of
    for port in ports:
        port.close()


# Memory that packets name by its address.
KEPT: list[np.ndarray] = []


def acknowledges(lab: Lab, sizes: list[int]) -> TransmitBatch:
    """Packets of these payload lengths, on one path after the other, PSN = row."""
    draw = random.Random(len(sizes))
    batch = TransmitBatch(len(sizes))
    pairs = [PlanePair(p, p, lab.addresses("h0")[p], lab.addresses("h1")[p], 4) for p in range(2)]
    every = [srv6_path(pair, UsidTemplate(0, 1, 1), uplink) for pair in pairs for uplink in range(4)]
    for row, content in enumerate(map(draw.randbytes, sizes)):
        path = every[row % len(every)]
        frames = Frames()
        frames.add(path.template, path.port, path.destination)
        KEPT.append(np.frombuffer(content, np.uint8))
        at = batch.append(frames, 0, 0xB8 if row % 3 else 0x12, 64, KEPT[-1].ctypes.data, len(content))
        fields = batch.fields(ACK, at, at + 1)
        fields["opcode"], fields["dqp_word"], fields["psn_word"] = 0xD1, 99, row
    batch.seal(0)
    return batch


def received(receiver: BatchReceiver, count: int) -> dict[bytes, int]:
    """Packets as they came, with the outer header's traffic class; every ICRC right."""
    found: dict[bytes, int] = {}
    by = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < by:
        if not receiver.receive():
            continue
        batch = receiver.batch
        rows = range(batch.count)
        assert all(batch.icrc_right(row) for row in rows)
        found |= {batch.packet(row): int(batch.traffic_class[row]) for row in rows}
    return found


@pytest.mark.parametrize(
    "sizes",
    [[100], [4096, 0, 1024], [0] * 64, [4096] * 64, [4096, 0] * 32],
    ids=["one", "few", "short", "long", "mixed"],
)
def test_packets_arrive_as_they_were_made(lab: Lab, opened: Opened, sizes: list[int]) -> None:
    """MRC-SRV6-01, MRC-SRV6-11, MRC-SRV6-12: as many as fit a batch, next to one another in memory."""
    ours, theirs = opened("h0"), opened("h1")
    receiver = BatchReceiver(theirs, 128, ROOM)
    sent = acknowledges(lab, sizes)
    for _ in range(3):
        assert BatchSender(ours, sent).send() == 0
        got = received(receiver, sent.count)
        assert got == {sent.packet(row): int(sent.traffic_class[row]) for row in range(sent.count)}
    assert [port.drops() for port in theirs] == [0, 0]


def test_other_routing_headers_are_not_let_in(lab: Lab, opened: Opened, make_wire: Callable[[Lab], Wire]) -> None:
    """Two segments, or something after them, would begin the inner packet elsewhere."""
    ours, theirs = opened("h0"), opened("h1")
    receiver = BatchReceiver(theirs, 128, ROOM)
    wire = make_wire(lab)
    at_host = wire.tap("h1", "p0")
    raw = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, ROUTING))
    wire.keep(raw)
    host = ipaddress.IPv6Address("5f00:0:4001::").packed
    inner = inner_packet(lab.addresses("h0")[0], lab.addresses("h1")[0], bytes(64))
    head = struct.pack("!BBBBBBH", IPPROTO_IPV6, 4, 4, 1, 1, 0, 0)
    raw.sendto(head + host + host + inner, ("5f00:0:1000:2001:1001::", 0))
    padding = struct.pack("!BB6x", 4, 6)
    with_tlv = struct.pack("!BBBBBBH", IPPROTO_IPV6, 3, 4, 1, 0, 0, 0)
    raw.sendto(with_tlv + host + padding + inner, ("5f00:0:1000:2001:1001::", 0))
    not_ipv6 = struct.pack("!BBBBBBH", socket.IPPROTO_UDP, 2, 4, 1, 0, 0, 0)
    raw.sendto(not_ipv6 + host + inner[40:], ("5f00:0:1000:2001:1001::", 0))
    # Too short for what it says it is, which no switch on the way would let pass.
    near = lab.inside("p0l1", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, ROUTING))
    wire.keep(near)
    near.sendto(struct.pack("!BBBBBBH", IPPROTO_IPV6, 2, 4, 0, 0, 0, 0) + host[:15], ("5f00:0:4001::", 0))
    sent = acknowledges(lab, [8])
    assert BatchSender(ours, sent).send() == 0
    assert list(received(receiver, 1)) == [sent.packet(0)]
    wire.fence.wait()
    assert receiver.receive() == 0
    # Not for want of having come that far.
    assert [packet[6] for packet in at_host.waiting()].count(ROUTING) == 5


def test_a_link_too_narrow_for_the_header_is_refused(lab: Lab) -> None:
    port = Fabric.load(lab.fabric_path("h0")).ports[0]
    with pytest.raises(SystemRefused, match="MTU 4400"):
        lab.inside("h0", lambda: Srv6Port(0, port, FullPackets(4096, 305), srh=True))
