# SPDX-License-Identifier: BSD-2-Clause
"""Processes that share a host's ports: the kernel gives each what is for its own QPs. Over real sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain
from types import SimpleNamespace
from typing import cast

import pytest
from loopback import Inside, needs_root, own_loopback, skipped_without_root
from patience import Fence, eventually

from mrc.endpoint.endpoint import Endpoint
from mrc.fabric.host_view import FabricPort
from mrc.net.filters import accept_ports, accept_srh, attach_filter, only_qpns
from mrc.net.flood_filter import FloodFilter
from mrc.net.mtu import FullPackets
from mrc.net.neighbours import HELD_NS, MANY, MANY_NS, shared
from mrc.net.ports import SRV6, SRV6_SRH, UDP_IPV4, UDP_IPV6, Framing, Port
from mrc.net.udp_port import UdpPort
from mrc.wire.srh import SRH_HEAD, SRH_LENGTH

UDP_PORTS = (4791, 4971)
OURS, OTHERS = 0x1234, 0x1235
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A filter at one end sees what the other sends from its first byte on, as on a raw socket."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


def passes(pair: Pair, packet: bytes) -> bool:
    pair[0].send(packet)
    with suppress(BlockingIOError):
        return pair[1].recv(65536) == packet
    return False


def bth(dqp: int) -> bytes:
    return struct.pack("!BBHII4x", 0xD1, 0, 0xFFFF, dqp, 0)


def packet(framing: Framing, dqp: int, *, udp_port: int = 4791, next_header: int = 17) -> bytes:
    """As the framing's socket is given it."""
    udp = struct.pack("!HHHH", 50_000, udp_port, 8 + 16, 0)
    if framing in (SRV6, SRV6_SRH):
        inner = struct.pack("!IHBB32x", 6 << 28, len(udp) + 16, next_header, 64)
        # No segment is left where it arrives.
        srh = SRH_HEAD[:3] + b"\0" + SRH_HEAD[4:] + bytes(SRH_LENGTH - len(SRH_HEAD))
        return (srh if framing is SRV6_SRH else b"") + inner + udp + bth(dqp)
    return (b"\x45" + bytes(19) if framing is UDP_IPV4 else b"") + udp + bth(dqp)


BASES = {
    "srv6": (SRV6, []),
    "srv6-srh": (SRV6_SRH, accept_srh()),
    "udp, IPv4": (UDP_IPV4, accept_ports(UDP_PORTS, ipv4=True)),
    "udp, IPv6": (UDP_IPV6, accept_ports(UDP_PORTS, ipv4=False)),
}


@pytest.mark.parametrize("mode", BASES)
def test_packets_for_other_qps_do_not_pass(pair: Pair, mode: str) -> None:
    framing, base = BASES[mode]
    attach_filter(pair[1], only_qpns(base, framing, UDP_PORTS, range(0x1000, OURS + 1)))
    for udp_port in UDP_PORTS:
        assert passes(pair, packet(framing, OURS, udp_port=udp_port))
        assert passes(pair, packet(framing, 0x1000 | 0xFF << 24, udp_port=udp_port)), "the byte before it is another's"
        assert not passes(pair, packet(framing, OTHERS, udp_port=udp_port))
        assert not passes(pair, packet(framing, 0xFFF, udp_port=udp_port))


@pytest.mark.parametrize("mode", BASES)
def test_without_qps_nothing_with_a_qpn_passes(pair: Pair, mode: str) -> None:
    framing, base = BASES[mode]
    attach_filter(pair[1], only_qpns(base, framing, UDP_PORTS, ()))
    assert not passes(pair, packet(framing, OURS))


@pytest.mark.parametrize("mode", BASES)
def test_what_is_too_short_for_a_qpn_passes_and_is_counted_by_the_endpoint(pair: Pair, mode: str) -> None:
    framing, base = BASES[mode]
    attach_filter(pair[1], only_qpns(base, framing, UDP_PORTS, (OURS,)))
    assert passes(pair, packet(framing, OTHERS)[:-1])


@pytest.mark.parametrize("mode", ["srv6", "srv6-srh"])
def test_what_is_no_mrc_packet_passes_where_nothing_else_keeps_it_out(pair: Pair, mode: str) -> None:
    framing, base = BASES[mode]
    attach_filter(pair[1], only_qpns(base, framing, UDP_PORTS, (OURS,)))
    assert passes(pair, packet(framing, OTHERS, udp_port=9))
    assert passes(pair, packet(framing, OTHERS, next_header=6))


@pytest.mark.parametrize("mode", ["srv6-srh", "udp, IPv4", "udp, IPv6"])
def test_what_the_port_never_takes_does_not_pass(pair: Pair, mode: str) -> None:
    framing, base = BASES[mode]
    attach_filter(pair[1], only_qpns(base, framing, UDP_PORTS, (OURS,)))
    wrong = {
        "srv6-srh": packet(framing, OURS).replace(SRH_HEAD[:3], b"\x29\x03\x04"),
        "udp, IPv4": b"\x46" + packet(framing, OURS)[1:],
        "udp, IPv6": packet(framing, OURS, udp_port=9),
    }[mode]
    assert not passes(pair, wrong)


# ---------------------------------------------------------------------- over real sockets

ADDRESSES = {"IPv4": ("10.9.2.1", "10.9.2.2"), "IPv6": ("fd09:2::1", "fd09:2::2")}


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with own_loopback(chain.from_iterable(ADDRESSES.values())) as run:
        yield run


class Process:
    """An endpoint with one QP, OURS, and one port, as a process of its own has them."""

    def __init__(self, address: str) -> None:
        self.endpoint = Endpoint()
        self.endpoint.create_qp(qpn=OURS)
        self.port = UdpPort(0, FabricPort(0, "lo", address, 0, 0), FullPackets(1024, 100), UDP_PORTS)
        self.filter = FloodFilter(self.endpoint, [self.port], UDP_PORTS)
        self.now = 0

    def look(self, unknown: int) -> None:
        """A time between two looks in which the endpoint counted so many packets for QPs it does not have."""
        self.endpoint.counters.unknown_qp += unknown
        self.now += MANY_NS
        self.filter.look(self.now)

    def is_given(self, dqp: int, udp_port: int = UDP_PORTS[0]) -> bool:
        """Whether a packet to this QPN reaches the port's socket."""
        address = self.port.receiver.getsockname()[0]
        with socket.socket(self.port.receiver.family, socket.SOCK_DGRAM) as sender:
            sender.sendto(bth(dqp), (address, udp_port))
        with closing(Fence(lambda opened: opened())) as fence:
            fence.wait()
        with suppress(BlockingIOError):
            return bool(self.port.receiver.recv(2048))
        return False

    def close(self) -> None:
        self.filter.end()
        self.port.close()


@pytest.mark.parametrize("version", ADDRESSES)
class TestRealSockets:
    pytestmark = needs_root

    def test_processes_that_share_a_port_are_given_what_is_for_their_own_qps(
        self, inside: Inside, version: str
    ) -> None:
        def run() -> None:
            address = ADDRESSES[version][0]
            with closing(Process(address)) as one, closing(Process(address)):
                one.look(MANY)
                assert one.is_given(OTHERS), "a few are left to the endpoint, which counts them"
                one.look(MANY + 1)
                assert [one.is_given(dqp) for dqp in (OURS, 2, OTHERS)] == [True, True, False]
                one.now += HELD_NS
                one.look(0)
                assert one.is_given(OTHERS), "it lets go, to see whether the others are still there"

        inside(run)

    def test_a_process_that_finds_others_on_its_ports_filters_from_the_start(
        self, inside: Inside, version: str
    ) -> None:
        """What comes before its first turn would else wait for it there: thousands of packets where many start."""

        def run() -> None:
            address = ADDRESSES[version][0]
            with closing(Process(address)) as one, closing(Process(address)) as other:
                assert one.is_given(OTHERS)
                assert [other.is_given(dqp) for dqp in (OURS, 2, OTHERS)] == [True, True, False]
                other.look(0)
                assert not other.is_given(OTHERS)
                other.now += HELD_NS
                other.look(0)
                assert other.is_given(OTHERS), "it lets go, to see whether the others are still there"

        inside(run)

    def test_a_process_alone_on_its_ports_counts_them_all(self, inside: Inside, version: str) -> None:
        def run() -> None:
            with closing(Process(ADDRESSES[version][0])) as one, closing(Process(ADDRESSES[version][1])):
                assert not shared([one.port])
                one.look(MANY + 1)
                assert one.is_given(OTHERS)

        inside(run)

    def test_an_endpoint_knows_whether_it_shares_its_addresses(self, inside: Inside, version: str) -> None:
        """Also of one that came later, with few packets."""

        def run() -> None:
            address, elsewhere = ADDRESSES[version]
            with closing(Process(address)) as one, closing(Process(elsewhere)):
                assert not one.endpoint.shares_addresses()
                with closing(Process(address)) as other:
                    assert other.endpoint.shares_addresses()
                    eventually(one.endpoint.shares_addresses)

        inside(run)

    def test_a_new_qp_is_heard_at_once(self, inside: Inside, version: str) -> None:
        """Its peer may answer before the loop looks again."""

        def run() -> None:
            address = ADDRESSES[version][0]
            with closing(Process(address)) as one, closing(Process(address)):
                one.look(MANY + 1)
                assert not one.is_given(OTHERS)
                other = one.endpoint.create_qp(qpn=OTHERS)
                assert one.is_given(OTHERS)
                one.endpoint.destroy_qp(other)
                one.look(0)
                assert not one.is_given(OTHERS)

        inside(run)


@pytest.mark.root
@skipped_without_root
def test_in_srv6_mode_who_sends_from_the_same_address_shares_a_port(inside: Inside) -> None:
    """A port receives by a socket of its own that has no address, as any other program's raw socket may have none."""

    def run() -> None:
        def opened(address: str | None) -> socket.socket:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_IPV6)
            if address is not None:
                sock.bind((address, 0))
            return sock

        here, elsewhere = ADDRESSES["IPv6"]
        with opened(here) as sender, opened(None) as receiver:
            port = cast(Port, SimpleNamespace(sender=sender, receiver=receiver))
            with opened(None), opened(elsewhere):
                assert not shared([port])
            with opened(here):
                assert shared([port])

    inside(run)
