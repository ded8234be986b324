# SPDX-License-Identifier: BSD-2-Clause
"""Ports in UDP and STEV modes over loopback: what is sent, what arrives, and that the kernel keeps quiet."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from patience import PATIENCE_S, Fence, until_in_use

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.receive import TRIMMED, PacketChecks
from mrc.endpoint.paths.addressing import PlanePair, stev_paths
from mrc.errors import CallerError, SystemRefused
from mrc.fabric.host_view import FabricPort
from mrc.lab.namespace import in_namespace, unshare_network
from mrc.net.filters import accept_ports
from mrc.net.hosts import OwnAddress, address_towards, addresses_towards, default_addresses, host_fabric, own_addresses
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.mtu import FullPackets
from mrc.net.ports import Port
from mrc.net.udp_port import UdpPort, full_packets
from mrc.threads import in_thread
from mrc.wire.fields import ACK
from mrc.wire.frames import Frames
from mrc.wire.icrc import icrc_bytes, icrc_ipv4
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

T = TypeVar("T")
Inside = Callable[[Callable[[], T]], T]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root for raw sockets and a namespace"
    ),
]
ADDRESSES = ("10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2")
PORTS = (4791, 4971)


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside[object]]:
    """Runs a function in a namespace of our own, whose loopback has ADDRESSES."""

    def make() -> int:
        descriptor = unshare_network()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in ADDRESSES:
            subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
        until_in_use({"lo"})
        return descriptor

    descriptor = in_thread(make)
    yield lambda function: in_namespace(descriptor, function)
    os.close(descriptor)


ZEROS = np.zeros(1 << 16, np.uint8)


def opened(address: str, number: int = 0, path_mtu: int = 1024) -> UdpPort:
    return UdpPort(number, FabricPort(number, "lo", address, 0, 0), FullPackets(path_mtu, 100), PORTS)


def acknowledges(
    pairs: list[tuple[str, str]], ev: int, ports: int = 16, *, long: int | None = None, behind: int = 0
) -> TransmitBatch:
    """An Acknowledge from each first to each second address, from so many ports in turn; PSN = its row. That of row
    `long` has so many bytes `behind` it."""
    batch = TransmitBatch(len(pairs))
    for row, (source, destination) in enumerate(pairs):
        (path,) = stev_paths(PlanePair(row % ports, row % ports, source, destination, 0), [(ev, 0)])
        frames, length = Frames(), behind if row == long else 0
        frames.add(path.template, path.port, path.destination)
        batch.append(frames, 0, 0xB8 if row % 2 else 0, 64, ZEROS.ctypes.data, length)
        fields = batch.fields(ACK, row, row + 1)
        fields["opcode"], fields["dqp_word"], fields["psn_word"] = 0xD1, 99, row
    batch.seal(0)
    return batch


def received_by(receiver: BatchReceiver, count: int) -> ReceivedBatch:
    with closing(Fence(lambda opened: opened())) as fence:
        fence.wait()
    by = time.monotonic() + PATIENCE_S
    while time.monotonic() < by:
        if receiver.receive():
            assert receiver.batch.count == count
            return receiver.batch
    raise AssertionError("nothing arrived")


def without_hop_limit(packet: bytes) -> bytes:
    """The kernel does not tell the hop limit of IPv6; the ICRC does not cover it."""
    return packet if packet[0] >> 4 == 4 else packet[:7] + packet[8:]


@pytest.mark.parametrize("ev", [0, 0xC123])
@pytest.mark.parametrize(
    "pairs",
    [
        [("10.9.0.1", "10.9.0.2")],
        [("fd09::1", "fd09::2")],
        [("fd09::1", "fd09::2"), ("10.9.0.1", "10.9.0.2")],
        [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")],
    ],
    ids=["IPv4", "IPv6", "IPv6 and IPv4", "IPv4 and IPv6"],
)
def test_packets_arrive_as_they_were_made(inside: Inside[None], pairs: list[tuple[str, str]], ev: int) -> None:
    """Every byte from the IP header on, as wire.md has it. MRC-WIRE-04, MRC-EV-01, MRC-EV-03, MRC-ICRC-09."""

    def run() -> None:
        ours: list[Port] = [opened(source, number) for number, (source, _) in enumerate(pairs)]
        theirs: list[Port] = [opened(destination, number) for number, (_, destination) in enumerate(pairs)]
        receiver = BatchReceiver(theirs, 32, 256)
        # Rows used before by the other IP version leave nothing behind.
        for _ in range(3):
            sent = acknowledges(pairs, ev)
            assert BatchSender(ours, sent).send() == 0
            got = received_by(receiver, len(pairs))
            rows = range(got.count)
            assert all(got.icrc_right(row) for row in rows)
            assert [without_hop_limit(got.packet(row)) for row in rows] == [
                without_hop_limit(sent.packet(row)) for row in rows
            ]
            assert got.port.tolist() == list(range(len(pairs)))
            assert got.traffic_class.tolist() == sent.traffic_class.tolist()
        for port in (*ours, *theirs):
            assert port.drops() == 0
            port.close()

    inside(run)


def test_over_ipv6_both_halves_of_the_ev_arrive(inside: Inside[None]) -> None:
    """MRC-EV-01: half in the source port, half in the flow label; a label of 0 stays 0."""

    def run() -> None:
        ours, theirs = opened("fd09::1"), opened("fd09::2")
        receiver = BatchReceiver([theirs], 32, 256)
        for ev in (0x12345678, 0xFFFFFFFF, 0x0000C123):
            BatchSender([ours], acknowledges([("fd09::1", "fd09::2")], ev)).send()
            fields = received_by(receiver, 1).fields(ACK)
            assert (int(fields["ip_word"][0]) & 0xFFFFF, int(fields["udp_sport"][0])) == (ev >> 16, ev & 0xFFFF)
        ours.close()
        theirs.close()

    inside(run)


def test_what_is_too_long_is_refused_and_its_port_named(inside: Inside[None]) -> None:
    """Lost, as by a port that is down. Few packets and many: they go different ways."""

    def run() -> None:
        ports = [opened("10.9.0.1", 0), opened("fd09::1", 1)]
        subprocess.run(["ip", "link", "set", "lo", "mtu", "1500"], check=True)
        try:
            for pairs in (1, 4):
                ends = [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] * pairs
                batch = acknowledges(ends, 5, 2, long=1, behind=2000)
                sender = BatchSender(ports, batch)
                assert sender.send() == 1
                assert sender.too_long == {1}
        finally:
            subprocess.run(["ip", "link", "set", "lo", "mtu", "65536"], check=True)
            for port in ports:
                port.close()

    inside(run)


def header_included() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
    return sock


def test_another_implementations_ipv4_header_is_what_its_icrc_is_checked_with(inside: Inside[None]) -> None:
    """Identification and "don't fragment" are covered (MRC-ICRC-04), and senders choose them."""

    def run() -> None:
        theirs = opened("10.9.0.2")
        receiver = BatchReceiver([theirs], 32, 256)
        packet = bytearray(acknowledges([("10.9.0.1", "10.9.0.2")], 5).packet(0))
        packet[4:8] = b"\x12\x34\x00\x00"  # identification 0x1234, may be fragmented
        packet[-4:] = icrc_bytes(icrc_ipv4(packet[:-4]))
        with header_included() as sock:
            sock.sendto(packet, ("10.9.0.2", 0))
        got = received_by(receiver, 1)
        assert got.packet(0)[4:8] == b"\x12\x34\x00\x00"
        assert got.icrc_right(0)
        theirs.close()

    inside(run)


@pytest.mark.parametrize(("source", "own"), [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("rewritten", [True, False], ids=["UDP length rewritten", "old UDP length"])
@pytest.mark.parametrize("kept", [100, 256, 1010])
def test_what_a_switch_cut_comes_in_and_is_known(
    inside: Inside[None], source: str, own: str, rewritten: bool, kept: int
) -> None:
    """A UDP socket would drop a datagram that is shorter than its UDP length says; a raw one is given it.

    The IP length is right: the kernel drops what is shorter than that says. MRC-TRIM-04, MRC-TRIM-10.
    """

    def run() -> None:
        port = opened(own)
        receiver = BatchReceiver([port], 32, 2048)
        ipv4 = "." in own
        at = 20 if ipv4 else 40
        # WRITE Only to QP 99, PSN 7: BTH, METH, RETH, 1,024 bytes and what is no right ICRC.
        transport = bytes.fromhex("ca00ffff 00000063 00000007") + bytes(4 + 16 + 1024 + 4)
        udp_length = 8 + len(transport)
        packet = bytearray(acknowledges([(source, own)], 5).packet(0)[:at])
        packet += struct.pack(">HHHH", 5, 4791, udp_length, 0) + transport
        packet = packet[:kept]
        if rewritten:
            packet[at + 4 : at + 6] = (kept - at).to_bytes(2, "big")
        if ipv4:
            packet[1] = 48 << 2 | 2
            packet[2:4] = kept.to_bytes(2, "big")
        else:
            packet[:2] = (0x6000 | (48 << 2 | 2) << 4).to_bytes(2, "big")
            packet[4:6] = (kept - at).to_bytes(2, "big")
        family = socket.AF_INET if ipv4 else socket.AF_INET6
        with header_included() if ipv4 else socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
            sock.sendto(packet, (own, 0))
        got = received_by(receiver, 1)
        assert got.packet(0)[at + 8 :] == packet[at + 8 :]
        counters = Counters()
        wire = WireProfile(dscp_trimmed=48)
        assert PacketChecks(wire, counters).look(got, 0) == TRIMMED
        assert counters.as_dict() == {"trimmed_received": 1}
        port.close()

    inside(run)


def test_only_packets_for_the_accepted_ports_come_in(inside: Inside[None]) -> None:
    """MRC-WIRE-06."""

    def run() -> None:
        for family, own, other in (
            (socket.AF_INET, "10.9.0.2", "10.9.0.1"),
            (socket.AF_INET6, "fd09::2", "fd09::1"),
        ):
            port = opened(own)
            receiver = BatchReceiver([port], 32, 256)
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.bind((other, 0))
                for number in (4790, 4791, 4792, 4971, 53):
                    sock.sendto(b"to %d" % number, (own, number))
            got = received_by(receiver, 2)
            assert [bytes(got.view(row, 48, int(got.length[row]))) for row in range(2)] == [b"to 4791", b"to 4971"]
            port.close()

    inside(run)


def packets_for_nobody(family: socket.AddressFamily) -> int:
    """What the kernel of this thread's namespace counts as UDP packets for ports that nobody has."""
    own = Path("/proc/thread-self/net")
    if family == socket.AF_INET6:
        return int(dict(line.split() for line in (own / "snmp6").read_text().splitlines())["Udp6NoPorts"])
    names, values = (line.split() for line in (own / "snmp").read_text().splitlines() if line.startswith("Udp:"))
    return int(dict(zip(names, values, strict=True))["NoPorts"])


@pytest.mark.parametrize(
    ("family", "own", "other"),
    [(socket.AF_INET, "10.9.0.2", "10.9.0.1"), (socket.AF_INET6, "fd09::2", "fd09::1")],
    ids=["IPv4", "IPv6"],
)
def test_packets_for_other_ports_are_counted_by_the_kernel_alone(
    inside: Inside[None], family: socket.AddressFamily, own: str, other: str
) -> None:
    """As docs/udp-mode.md says: where nobody has the port, and not among the drops of a full buffer."""

    def run() -> None:
        port = opened(own)
        before = packets_for_nobody(family)
        with socket.socket(family, socket.SOCK_DGRAM) as sock, socket.socket(family, socket.SOCK_DGRAM) as somebody:
            sock.bind((other, 0))
            somebody.bind((own, 0))
            for number in (4790, 4791, 4792, 4971, somebody.getsockname()[1]):
                sock.sendto(b"stray", (own, number))
        received_by(BatchReceiver([port], 32, 256), 2)
        assert packets_for_nobody(family) - before == 2
        assert port.drops() == 0
        port.close()

    inside(run)


def test_ipv4_options_are_not_let_in(inside: Inside[None]) -> None:
    """A row has no place for them; RoCEv2 has none."""

    def run() -> None:
        port = opened("10.9.0.2")
        receiver = BatchReceiver([port], 32, 256)
        plain = acknowledges([("10.9.0.1", "10.9.0.2")], 5).packet(0)
        with_options = b"\x46" + plain[1:20] + b"\x01\x01\x01\x00" + plain[20:]
        with header_included() as sock:
            sock.sendto(with_options, ("10.9.0.2", 0))
            sock.sendto(plain, ("10.9.0.2", 0))
        assert received_by(receiver, 1).packet(0)[0] == 0x45
        port.close()

    inside(run)


@pytest.mark.parametrize(("family", "own"), [(socket.AF_INET, "10.9.0.2"), (socket.AF_INET6, "fd09::2")])
def test_no_port_unreachable_while_a_port_is_open(inside: Inside[None], family: socket.AddressFamily, own: str) -> None:
    def answer(number: int) -> bytes | None:
        """What a connected sender hears of a datagram: nothing, or that the port is unreachable."""
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.2)
            sock.connect((own, number))
            sock.send(b"stray")
            try:
                return sock.recv(10)
            except TimeoutError:
                return None

    def run() -> None:
        port = opened(own)
        assert [answer(number) for number in PORTS] == [None, None]
        with pytest.raises(ConnectionRefusedError):
            answer(4792)
        port.close()
        with pytest.raises(ConnectionRefusedError):
            answer(4791)

    inside(run)


def test_several_processes_may_share_an_address_and_each_gets_all(inside: Inside[None]) -> None:
    def run() -> None:
        one, other, sender = opened("10.9.0.2"), opened("10.9.0.2"), opened("10.9.0.1")
        BatchSender([sender], acknowledges([("10.9.0.1", "10.9.0.2")], 5)).send()
        for port in (one, other):
            assert received_by(BatchReceiver([port], 8, 256), 1).icrc_right(0)
        for port in (one, other, sender):
            port.close()

    inside(run)


def test_a_packet_longer_than_a_row_is_cut_and_no_more(inside: Inside[None]) -> None:
    def run() -> None:
        port = opened("10.9.0.2")
        receiver = BatchReceiver([port], 4, 256)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(bytes(5000), ("10.9.0.2", 4791))
        assert received_by(receiver, 1).length.tolist() == [256]
        port.close()

    inside(run)


def test_closing_gives_every_descriptor_back(inside: Inside[None]) -> None:
    def run() -> None:
        before = len(os.listdir("/proc/self/fd"))
        port = opened("fd09::1")
        assert len(os.listdir("/proc/self/fd")) == before + 3
        port.close()
        port.close()
        assert len(os.listdir("/proc/self/fd")) == before

    inside(run)


@pytest.mark.parametrize(
    ("address", "path_mtu", "says"),
    [
        ("10.9.0.77", 1024, "is it an address of this host"),
        (
            "10.9.0.1",
            70000,
            "interface lo has MTU 65536, and .* take 70100: raise the interface's MTU, or use --mtu 4096",
        ),
    ],
)
def test_ports_that_cannot_be_opened(inside: Inside[None], address: str, path_mtu: int, says: str) -> None:
    def run() -> None:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(SystemRefused, match=says):
            opened(address, path_mtu=path_mtu)
        assert len(os.listdir("/proc/self/fd")) == before

    inside(run)


@pytest.mark.parametrize(("address", "bytes_of_ip"), [("10.9.0.1", 20), ("fd09::1", 40)])
def test_what_a_full_packet_takes(address: str, bytes_of_ip: int) -> None:
    """wire.md sections 1 to 4: UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, ImmDt 4, payload, ICRC 4."""
    assert full_packets(address, 1024).length == bytes_of_ip + 8 + 12 + 4 + 4 + 16 + 4 + 1024 + 4


@pytest.mark.parametrize("ipv4", [True, False])
@pytest.mark.parametrize("ports", [(4791,), (4971, 4791), (1, 2, 3, 4, 5)])
def test_the_filter_is_a_program_whose_jumps_stay_inside(ports: tuple[int, ...], ipv4: bool) -> None:
    program = accept_ports(ports, ipv4=ipv4)
    for at, (_, jump_true, jump_false, _) in enumerate(program):
        assert max(jump_true, jump_false) + at + 1 <= len(program)
    assert [operand for code, _, _, operand in program if code == 0x06] == [0, 0xFFFFFFFF]


# ---------------------------------------------------------------------- the host's own addresses


def test_own_addresses_and_the_interfaces_that_have_them(inside: Inside[None]) -> None:
    found = inside(own_addresses)  # type: ignore[arg-type]
    assert sorted(found, key=str) == sorted(  # type: ignore[call-overload]
        [OwnAddress("lo", address) for address in ("127.0.0.1", "::1", *ADDRESSES)], key=str
    )


def test_a_host_is_a_fabric_of_a_plane_for_each_address(inside: Inside[None]) -> None:
    def run() -> None:
        fabric = host_fabric(["fd09::2", "10.9.0.1"])
        assert (fabric.mode, fabric.mtu) == ("udp", 65536)
        assert [(port.plane, port.interface, port.address) for port in fabric.ports] == [
            (0, "lo", "fd09::2"),
            (1, "lo", "10.9.0.1"),
        ]

    inside(run)


def test_the_way_to_a_peer_names_our_address(inside: Inside[None]) -> None:
    def run() -> None:
        assert address_towards("10.9.0.2") == "10.9.0.2"
        assert address_towards("192.0.2.1") is None
        assert addresses_towards(["10.9.0.2", "fd09::1", "192.0.2.1", "fd09::2"]) == ["10.9.0.2", "fd09::1"]
        # One address cannot be two planes.
        assert addresses_towards(["10.9.0.2", "10.9.0.2"]) == ["10.9.0.2"]
        with pytest.raises(CallerError, match=r"no route to 192\.0\.2\.1: name the addresses to use: --bind"):
            addresses_towards(["192.0.2.1", "10.9.0.2"])

    inside(run)


def test_without_a_default_route_several_addresses_are_a_question(inside: Inside[None]) -> None:
    def run() -> None:
        with pytest.raises(CallerError, match=r"this host has 10\.9\.0\.1, .*: name those to use.*: --bind ADDR"):
            default_addresses()

    inside(run)


def test_the_default_route_names_our_address() -> None:
    def run() -> None:
        os.close(unshare_network())
        with pytest.raises(CallerError, match="no address that others could reach"):
            default_addresses()
        for words in (
            "link set lo up",
            "link add d0 type bridge",
            "addr add 10.9.1.1/24 dev d0",
            "link set d0 up",
            "link add d1 type bridge",
            "addr add 10.9.2.1/24 dev d1",
            "link set d1 up",
        ):
            subprocess.run(["ip", *words.split()], check=True)
        subprocess.run(["ip", "route", "add", "default", "via", "10.9.2.9", "dev", "d1"], check=True)
        assert default_addresses() == ["10.9.2.1"]
        assert host_fabric(["10.9.2.1"]).ports[0].interface == "d1"

    in_thread(run)


def test_sock_fprog_is_the_kernels() -> None:
    """struct sock_fprog: a 16-bit count and, aligned, a pointer."""
    assert struct.calcsize("@HP") == 16
