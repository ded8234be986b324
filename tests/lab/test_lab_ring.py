# SPDX-License-Identifier: BSD-2-Clause
"""A ring of leaves in namespaces: the kernel takes every EV's packets over the links that its path names."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import programs
import pytest
from lab_wire import Wire, inner_packet
from patience import PATIENCE_S
from programs import MRC

from mrc.fabric.names import Link
from mrc.fabric.next_hop import nodes_passed
from mrc.fabric.shapes.ring import Ring
from mrc.lab import Lab
from mrc.wire.usid import address_text

pytestmark = pytest.mark.root

TOPOLOGY = Path(__file__).parents[2] / "docs" / "topologies" / "ring.yaml"
PACKETS = 200
# Listeners' reports and the like, which the kernel sends of its own.
BESIDES = 50


@pytest.fixture(params=["kernel", "fast"], scope="module")
def ring(lab_name: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab.up(lab_name(f"ring-{request.param}"), Ring(leaves=5), fast=request.param == "fast") as built:
        yield built


def arrived(lab: Lab) -> Counter[tuple[str, str]]:
    """Packets that each direction of each link has brought, by the kernel's counters."""
    found: Counter[tuple[str, str]] = Counter()
    for link in lab.status().links:
        for end, direction in link.toward.items():
            found[link.name, end] = direction.packets
    return found


@pytest.mark.parametrize("peer", [1, 2])
def test_packets_of_every_ev_are_counted_at_the_links_they_name(ring: Lab, peer: int) -> None:
    template = ring.topology.template_between(0, peer)
    wire = Wire(ring)
    try:
        sender, receiver = wire.raw("h0"), wire.raw(f"h{peer}")
        for plane in range(2):
            for uplink in range(2):
                nodes = ("h0", *nodes_passed(template.usids(plane, uplink)))
                named = {(Link.between(near, far).name, far) for near, far in pairwise(nodes)}
                inner = inner_packet(ring.addresses("h0")[plane], ring.addresses(f"h{peer}")[plane], b"around")
                before = arrived(ring)
                for _ in range(PACKETS):
                    sender.sendto(inner, (address_text(template.address(plane, uplink)), 0))
                    assert receiver.recv(65536) == inner
                grown = arrived(ring) - before
                assert {key for key, count in grown.items() if count >= PACKETS} == named
                assert all(count < PACKETS + BESIDES for count in grown.values())
    finally:
        wire.close()


def test_plain_addresses_reach_every_host_and_the_lab_is_as_described(ring: Lab) -> None:
    assert ring.differences() == ()
    for peer in ("h1", "h2", "h3", "h4"):
        for address in ring.addresses(peer):
            code = (
                "import socket, sys; s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); s.settimeout(10)\n"
                "sys.exit(0 if s.connect_ex((sys.argv[1], 9)) == 111 else 1)"
            )
            asked = ring.popen("h0", [sys.executable, "-c", code, address])
            assert asked.wait(PATIENCE_S) == 0, (peer, address)


def test_a_file_goes_over_all_paths_and_past_a_cut(ring: Lab, tmp_path: Path) -> None:
    data = bytes(range(256)) * (1 << 14)
    (tmp_path / "data").write_bytes(data)
    for number, cut in enumerate((None, "p0l1-p0l2")):
        if cut:
            ring.cut(cut)
        target = tmp_path / f"to{number}"
        target.mkdir()
        argv = [*MRC, "recv", "--once", "--dir", str(target)]
        receiver = ring.popen("h2", argv, start=programs.start, stdout=subprocess.PIPE, text=True)
        try:
            assert receiver.stdout is not None
            ticket = receiver.stdout.readline().strip()
            before = arrived(ring)
            sender = ring.popen("h0", [*MRC, "send", str(tmp_path / "data"), ticket], start=programs.start)
            assert sender.wait(PATIENCE_S) == 0
            assert receiver.wait(PATIENCE_S) == 0
        finally:
            receiver.kill()
            receiver.communicate()
        assert (target / "data").read_bytes() == data
        grown = arrived(ring) - before
        ways = [grown[f"p{plane}l0-p{plane}l{leaf}", f"p{plane}l{leaf}"] for plane in range(2) for leaf in (1, 4)]
        if cut:
            ring.heal(cut)
            assert min(ways[1:]) > BESIDES
        else:
            assert min(ways) > len(data) // 4096 // 8


def test_the_topology_file_is_one_of_the_command_line(lab_name: Callable[[str], str]) -> None:
    name = lab_name("ring-file")
    options = ["--shape", "ring", "--leaves", "3", "--name", name]
    refused = programs.run([*MRC, "lab", "up", *options, str(TOPOLOGY)], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "contradicts" in refused.stderr
    try:
        built = programs.run([*MRC, "lab", "up", *options], capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        with Lab.open(name) as lab:
            assert lab.topology == Ring(leaves=3)
    finally:
        Lab.remove(name)
