# SPDX-License-Identifier: BSD-2-Clause
"""Packets through the kernel: each switch takes its own uSID off, plain IPv6 works beside it."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from lab_wire import Wire, arrived, deliveries, inner_packet, next_tunnelled, outer_addresses, paths, run, usid_address
from patience import PATIENCE_S

from mrc.fabric import Clos, Fabric
from mrc.lab import Lab

pytestmark = pytest.mark.root


def test_every_path_is_shifted_at_every_hop(lab: Lab, wire: Wire) -> None:
    """MRC-SRV6-03, MRC-SRV6-08."""
    sender, receiver = wire.raw("h0"), wire.raw("h1")
    for plane, uplink in paths(lab.topology):
        at_spine = wire.tap(f"p{plane}s{uplink}", f"p{plane}l0")
        at_leaf = wire.tap(f"p{plane}l1", f"p{plane}s{uplink}")
        at_host = wire.tap("h1", f"p{plane}")
        source, destination = lab.addresses("h0")[plane], lab.addresses("h1")[plane]
        inner = inner_packet(source, destination, b"path %d %d" % (plane, uplink))
        sender.sendto(inner, (usid_address(lab.topology, 0, 1, plane, uplink), 0))
        assert receiver.recv(65536) == inner
        # Written out, not computed: the forms of wire.md section 11 for leaf 0 to host 1 on leaf 1.
        for tap, expected in (
            (at_spine, f"5f00:0:2{plane}0{uplink}:1{plane}01:4{plane}01::"),
            (at_leaf, f"5f00:0:1{plane}01:4{plane}01::"),
            (at_host, f"5f00:0:4{plane}01::"),
        ):
            assert outer_addresses(next_tunnelled(tap, inner)) == (source, expected)


def test_paths_work_in_the_other_direction_too(wire: Wire) -> None:
    assert all(deliveries(wire, source=1, destination=0).values())


@pytest.mark.tshark
def test_tshark_sees_the_same_at_a_spine(lab: Lab, wire: Wire, need_program: Callable[[str], str]) -> None:
    # Two matches of ipv6.dst in one packet: the outer header and the inner one.
    argv = [need_program("tshark"), "-l", "-i", "p1l0", "-c", "1", "-f", "ip6 proto 41", "-T", "fields"]
    process = lab.popen(
        "p1s3",
        [*argv, "-e", "ipv6.dst", "-e", "udp.dstport"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sender = wire.raw("h0")
    inner = inner_packet(lab.addresses("h0")[1], lab.addresses("h1")[1], b"x")
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        sender.sendto(inner, (usid_address(lab.topology, 0, 1, 1, 3), 0))
        time.sleep(0.1)
    process.kill()
    output, errors = process.communicate()
    assert output.split() == ["5f00:0:2103:1101:4101::,fd4d:5243:1::2", "4791"], errors


def test_two_hosts_under_one_leaf(lab_name: Callable[[str], str], make_wire: Callable[[Lab], Wire]) -> None:
    with Lab.up(lab_name("pair"), Clos(planes=1, leaves=1, spines=1, hosts_per_leaf=2)) as small:
        wire = make_wire(small)
        receiver = wire.raw("h1")
        inner = inner_packet(*(small.addresses(host)[0] for host in ("h0", "h1")), b"neighbours")
        wire.raw("h0").sendto(inner, ("5f00:0:1000:4001::", 0))
        assert receiver.recv(65536) == inner


def test_the_largest_packet_passes_whole(lab: Lab, wire: Wire) -> None:
    sender, receiver = wire.raw("h0"), wire.raw("h1")
    at_host = wire.tap("h1", "p0")
    inner = inner_packet(lab.addresses("h0")[0], lab.addresses("h1")[0], bytes(lab.topology.mtu - 40 - 48))
    sender.sendto(inner, (usid_address(lab.topology, 0, 1, 0, 0), 0))
    assert receiver.recv(65536) == inner
    assert len(inner) + len(next_tunnelled(at_host, inner)) == lab.topology.mtu == 4400


def test_an_unknown_usid_is_dropped_in_silence(lab: Lab, wire: Wire) -> None:
    complaints = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
    inner = inner_packet(lab.addresses("h0")[0], lab.addresses("h1")[0], b"nowhere")
    for _ in range(20):
        wire.raw("h0").sendto(inner, ("5f00:0:1000:20ff:1001:4001::", 0))
    wire.fence.wait()
    # Types below 128 are errors (RFC 4443 section 2.1).
    errors = [message[0] for message in arrived(complaints) if message[0] < 128]
    complaints.close()
    assert errors == []


@pytest.mark.parametrize("plane", [0, 1])
def test_plain_ipv6_echo(lab: Lab, plane: int) -> None:
    echo = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
    echo.settimeout(PATIENCE_S)
    for target in (lab.addresses("h1")[plane], f"fd4d:5243:{plane}:1::1", f"fd4d:5243:{plane}:2::3"):
        echo.sendto(struct.pack("!BBHHH", 128, 0, 0, os.getpid() & 0xFFFF, plane) + b"mrc", (target, 0))
        while True:
            answer, sender = echo.recvfrom(2048)
            if answer[0] == 129:
                break
        assert answer[8:] == b"mrc"
        assert socket.inet_pton(socket.AF_INET6, sender[0]) == socket.inet_pton(socket.AF_INET6, target)
    echo.close()


@pytest.mark.parametrize("plane", [0, 1])
def test_tcp_between_host_addresses(lab: Lab, plane: int) -> None:
    address = lab.addresses("h1")[plane]
    listener = lab.inside("h1", lambda: socket.create_server((address, 5001), family=socket.AF_INET6))
    client = lab.inside("h0", lambda: socket.create_connection((address, 5001), timeout=PATIENCE_S))
    server, peer = listener.accept()
    assert peer[0] == lab.addresses("h0")[plane]
    data = os.urandom(1 << 20)
    writer = threading.Thread(target=lambda: (client.sendall(data), client.close()))
    writer.start()
    received = bytearray()
    while chunk := server.recv(1 << 16):
        received += chunk
    writer.join()
    server.close()
    listener.close()
    assert received == data


def test_programs_run_where_they_should(lab: Lab) -> None:
    here = os.readlink("/proc/self/ns/net")
    threads = threading.active_count()
    shown = run(lab, "h1", "sh", "-c", "readlink /proc/self/ns/net; echo $MRC_FABRIC").split()
    assert shown[0] == f"net:[{lab.namespace_path('h1').stat().st_ino}]" != here
    fabric = Fabric.load(shown[1])
    assert (fabric.host, tuple(port.address for port in fabric.ports)) == (1, lab.addresses("h1"))
    assert run(lab, "p0s0", "sh", "-c", "echo fabric $MRC_FABRIC").split() == ["fabric"]
    assert os.readlink("/proc/self/ns/net") == here
    assert threading.active_count() == threads
