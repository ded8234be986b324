# SPDX-License-Identifier: BSD-2-Clause
"""A flood of what the endpoint refuses: the kernel takes over, counts, and lets go again. Over real sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain

import pytest
from attacks import trimmed
from hand_operations import EV_PROBE, request
from hand_peer import MILLISECOND, ONLY, PROBE, HandPeer
from loopback import Inside, needs_root, own_loopback
from patience import Fence

from mrc.endpoint.config import QpConfig
from mrc.fabric.host_view import FabricPort
from mrc.net.flood_filter import HELD_NS, LOOK_NS, FloodFilter
from mrc.net.mtu import FullPackets
from mrc.net.udp_port import UdpPort
from mrc.wire.ipv4 import address_number

pytestmark = needs_root
OURS, PEERS, STRANGERS = 0, 1, 2
ADDRESSES = {"IPv4": ("10.9.1.1", "10.9.1.2", "10.9.1.3"), "IPv6": ("fd09:1::1", "fd09:1::2", "fd09:1::3")}
UDP_PORT = 4791


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with own_loopback(chain.from_iterable(ADDRESSES.values())) as run:
        yield run


class Flooded:
    """An endpoint whose peer has an address of ADDRESSES, one real port, and its filter."""

    def __init__(self, version: str) -> None:
        self.addresses = ADDRESSES[version]
        self.hand = HandPeer(QpConfig(path_mtu=256))
        self.qp = self.hand.connect(
            QpConfig(path_mtu=256), qpn=0x44, sources={0: address_number(self.addresses[PEERS])}
        )
        self.port = UdpPort(0, FabricPort(0, "lo", self.addresses[OURS], 0, 0), FullPackets(1024, 100), (UDP_PORT,))
        self.filter = FloodFilter(self.hand.endpoint, [self.port], (UDP_PORT,))
        self.now = 0

    def look(self, refused: int) -> bool:
        """A tenth of a second in which so many packets for unknown QPs arrive. Whether there is a filter then."""
        packets = [self.hand.request(0, b"", bth={"dqp": 1})] * 200
        for _ in range(refused // 200):
            self.hand.receive(*packets)
        self.now += LOOK_NS
        self.filter.look(self.now)
        return self.filter.active

    def flood(self, packets: list[bytes]) -> None:
        """These, answered as they are, fifty times a tenth of a second until there is a filter: within a second."""
        for _ in range(10):
            for _ in range(50):
                self.hand.exchange(*packets)
            if self.look(0):
                return
        pytest.fail("no filter after a second")

    def arrive(self, source: int, dqp: int, count: int = 1, *, opcode: int = 0xD1, psn: int = 0) -> int:
        """How many of `count` acknowledgements, or others, from there to this QP reach the port's socket."""
        ours, theirs = self.addresses[OURS], self.addresses[source]
        family = socket.AF_INET6 if ":" in ours else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.bind((theirs, 0))
            for _ in range(count):
                sender.sendto(struct.pack("!BBHIII4x", opcode, 0, 0xFFFF, dqp, psn, 0), (ours, UDP_PORT))
        with closing(Fence(lambda opened: opened())) as fence:
            fence.wait()
        arrived = 0
        with suppress(BlockingIOError):
            while arrived < count:
                self.port.receiver.recv(2048)
                arrived += 1
        return arrived

    def close(self) -> None:
        self.filter.end()
        self.port.close()


@pytest.mark.parametrize("version", ["IPv4", "IPv6"])
def test_a_flood_is_refused_by_the_kernel_and_counted_while_the_peer_is_heard(inside: Inside, version: str) -> None:
    def run() -> None:
        flooded = Flooded(version)
        assert not flooded.look(0)
        for _ in range(10):
            if flooded.look(10_000):
                break
        assert flooded.filter.active
        # What is surely for nobody here does not reach the socket, and is counted but for the few that fit its buffer.
        assert flooded.arrive(STRANGERS, flooded.qp.qpn, 300) == 0
        assert flooded.arrive(PEERS, 0x123456, 300) == 0
        assert flooded.arrive(PEERS, flooded.qp.qpn) == 1
        assert flooded.arrive(PEERS, 2) == 1
        flooded.look(0)
        assert 580 <= flooded.hand.counters["refused_by_kernel"] <= 600
        flooded.now += HELD_NS
        assert not flooded.look(0), "it lets go, to see whether the flood is over"
        assert flooded.arrive(PEERS, 0x123456) == 1
        flooded.close()

    inside(run)


def test_a_new_qp_is_heard_at_once(inside: Inside) -> None:
    """It is not on the kernel's list yet: the filter goes before the first packet can come."""

    def run() -> None:
        flooded = Flooded("IPv6")
        while not flooded.look(10_000):
            pass
        other = flooded.hand.connect(
            QpConfig(path_mtu=256), qpn=0x55, sources={0: address_number(flooded.addresses[STRANGERS])}
        )
        flooded.now += MILLISECOND
        flooded.filter.look(flooded.now)
        assert not flooded.filter.active
        assert flooded.arrive(STRANGERS, other.qpn) == 1
        flooded.close()

    inside(run)


def test_a_flood_of_endpoint_operations_with_the_peers_address_is_kept_out_too(inside: Inside) -> None:
    """There is no telling which are the peer's: none come for as long as the filter is there. Requests to QPs do."""

    def run() -> None:
        flooded = Flooded("IPv6")
        flooded.flood([request(number, EV_PROBE) for number in range(200)])
        assert flooded.arrive(PEERS, 2, 20) == 0
        assert flooded.arrive(PEERS, flooded.qp.qpn) == 1
        flooded.close()

    inside(run)


@pytest.mark.parametrize("kind", ["old", "beyond", "wrong ICRC", "trimmed"])
def test_requests_with_the_peers_address_are_kept_out_by_their_psn(inside: Inside, kind: str) -> None:
    """And the peer's own are let through while its PSNs move on, by 40,000 at a time: more than a look brings."""

    def run() -> None:
        flooded = Flooded("IPv6")
        hand, received = flooded.hand, flooded.qp.responder.received
        write = hand.request({"old": -1000, "beyond": 1 << 22}.get(kind, 0), b"x")
        hostile = {"wrong ICRC": write[:-1] + bytes([write[-1] ^ 1]), "trimmed": trimmed(write)}.get(kind, write)
        flooded.flood([hostile] * 200)
        for _ in range(6):
            near, far = received.epsn % (1 << 24), (received.epsn + (1 << 20)) % (1 << 24)
            assert flooded.arrive(PEERS, flooded.qp.qpn, opcode=ONLY, psn=near) == 1
            assert flooded.arrive(PEERS, flooded.qp.qpn, opcode=ONLY, psn=far) == 0
            assert flooded.arrive(PEERS, flooded.qp.qpn, psn=far) == 1, "an acknowledgement's PSN is another's"
            received.epsn += 40_000
            assert flooded.look(0)
        flooded.close()

    inside(run)


def test_of_a_flood_of_probes_with_the_peers_address_some_are_let_through(inside: Inside) -> None:
    def run() -> None:
        flooded = Flooded("IPv6")
        flooded.flood([flooded.hand.probe()] * 200)
        assert 0 < flooded.arrive(PEERS, flooded.qp.qpn, 320, opcode=PROBE) < 80
        assert flooded.arrive(PEERS, flooded.qp.qpn) == 1
        flooded.close()

    inside(run)


def test_what_is_ordinary_or_short_is_left_to_the_endpoint_which_counts_it_by_name(inside: Inside) -> None:
    """2,000 a tenth of a second for ever, and a burst of 20,000: no filter."""

    def run() -> None:
        flooded = Flooded("IPv6")
        for _ in range(12):
            assert not flooded.look(2_000)
        assert not flooded.look(20_000)
        assert "refused_by_kernel" not in flooded.hand.counters
        flooded.close()

    inside(run)
