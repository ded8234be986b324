# SPDX-License-Identifier: BSD-2-Clause
"""Which ports have room for full packets: interfaces' MTUs, what the kernel refuses, and what endpoints hear of it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from patience import eventually, until_in_use

from mrc.endpoint.node.local_ports import PortLimit, advice
from mrc.lab.namespace import in_namespace, unshare_network
from mrc.net.link_events import LinkChange, LinkWatch
from mrc.net.mtu import FullPackets
from mrc.net.port_room import REFUSED_NS, PortRoom
from mrc.threads import in_thread

needs_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]


class Endpoint:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, PortLimit | None, int]] = []

    def limit_port(self, port: int, limit: PortLimit | None, now: int) -> None:
        self.told.append((port, limit, now))


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def room(endpoint: Endpoint) -> Iterator[PortRoom]:
    """Port 3 on the loopback interface, whose MTU of 65536 has room for its packets; port 4 on one that is missing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        ports: Any = [
            SimpleNamespace(port=3, interface="lo", full=FullPackets(4096, 100), sender=sock),
            SimpleNamespace(port=4, interface="missing", full=FullPackets(4096, 100), sender=sock),
        ]
        yield PortRoom(endpoint, ports)  # type: ignore[arg-type]


def test_an_mtu_with_room_is_not_worth_a_word(endpoint: Endpoint, room: PortRoom) -> None:
    room.on_mtu(3, 4196, 1)
    assert endpoint.told == []


def test_an_mtu_that_falls_and_rises_again(endpoint: Endpoint, room: PortRoom) -> None:
    room.on_mtu(3, 4195, 1)
    room.on_mtu(3, 1500, 2)
    room.on_mtu(3, 4196, 3)
    room.on_mtu(3, 9000, 4)
    assert endpoint.told == [
        (3, PortLimit(4095, "interface lo has MTU 4195"), 1),
        (3, PortLimit(1400, "interface lo has MTU 1500"), 2),
        (3, None, 3),
    ]


def test_a_port_that_refuses_what_its_mtu_has_room_for_is_tried_again(endpoint: Endpoint, room: PortRoom) -> None:
    says = "interface lo has MTU 65536, but the kernel refuses packets of 4196 (IPsec?)"
    room.on_refused({3}, 10)
    room.look(10 + REFUSED_NS - 1)
    assert endpoint.told == [(3, PortLimit(0, says), 10)]
    room.look(10 + REFUSED_NS)
    room.look(10 + 2 * REFUSED_NS)
    assert endpoint.told[1:] == [(3, None, 10 + REFUSED_NS)]


def test_an_mtu_that_changes_ends_the_wait(endpoint: Endpoint, room: PortRoom) -> None:
    room.on_refused({3}, 10)
    room.on_mtu(3, 1500, 20)
    room.look(10 + REFUSED_NS)
    assert [limit for _, limit, _ in endpoint.told][1:] == [PortLimit(1400, "interface lo has MTU 1500")]


def test_an_interface_that_is_gone_is_left_to_its_link_event(endpoint: Endpoint, room: PortRoom) -> None:
    room.on_refused({4}, 10)
    assert endpoint.told == []


def test_a_refusal_before_the_link_event_tells_of_the_mtu() -> None:
    """What the MTU explains is a matter of the MTU, and needs no second try."""
    endpoint = Endpoint()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        ports: Any = [SimpleNamespace(port=0, interface="lo", full=FullPackets(1 << 17, 100), sender=sock)]
        room = PortRoom(endpoint, ports)  # type: ignore[arg-type]
        room.on_refused({0}, 5)
        room.look(5 + 2 * REFUSED_NS)
    assert endpoint.told == [(0, PortLimit(65436, "interface lo has MTU 65536"), 5)]


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (1399, "raise the interface's MTU, or use --mtu 1024"),
        (256, "raise the interface's MTU, or use --mtu 256"),
        (255, "raise the interface's MTU"),
    ],
)
def test_what_to_do_is_said(payload: int, says: str) -> None:
    """wire.md section 4: path MTUs are 256, 512, 1024, 2048 and 4096."""
    assert advice(payload) == says


class TestEvents:
    """A namespace with interface e0; port 0 and port 1 are both on it."""

    pytestmark = needs_root

    @pytest.fixture
    def watched(self) -> Iterator[tuple[int, LinkWatch]]:
        def make() -> tuple[int, LinkWatch]:
            descriptor = unshare_network()
            cable = ("e0", "mtu", "9000", "type", "veth", "peer", "name", "e1", "mtu", "9000")
            subprocess.run(["ip", "link", "add", *cable], check=True)
            for name in ("e0", "e1"):
                subprocess.run(["ip", "link", "set", name, "up"], check=True)
            until_in_use({"e0", "e1"})
            return descriptor, LinkWatch({0: "e0", 1: "e0"})

        descriptor, watch = in_thread(make)
        with closing(watch):
            yield descriptor, watch
        os.close(descriptor)

    @staticmethod
    def set_link(descriptor: int, *words: str) -> None:
        in_namespace(descriptor, lambda: subprocess.run(["ip", "link", "set", "e0", *words], check=True))

    def test_changes_are_told_once_for_each_port(self, watched: tuple[int, LinkWatch]) -> None:
        descriptor, watch = watched
        assert watch.changes() == [(0, None, 9000, False), (1, None, 9000, False)]
        assert watch.changes() == []
        self.set_link(descriptor, "mtu", "1500")
        assert eventually(watch.changes) == [(0, None, 1500, False), (1, None, 1500, False)]
        self.set_link(descriptor, "down")
        assert eventually(watch.changes) == [(0, False, None, False), (1, False, None, False)]
        self.set_link(descriptor, "mtu", "9000")
        assert eventually(watch.changes) == [(0, None, 9000, False), (1, None, 9000, False)]

    def test_an_interface_made_again_is_told_with_its_state(self, watched: tuple[int, LinkWatch]) -> None:
        """Under the same name and with another index."""
        descriptor, watch = watched
        watch.changes()

        def make_again() -> None:
            subprocess.run(["ip", "link", "del", "e0"], check=True)
            subprocess.run(["ip", "link", "add", "other", "type", "bridge"], check=True)
            subprocess.run(["ip", "link", "add", "e0", "mtu", "9000", "type", "veth", "peer", "name", "e1"], check=True)
            for name in ("e0", "e1"):
                subprocess.run(["ip", "link", "set", name, "up"], check=True)

        in_namespace(descriptor, make_again)
        told: list[LinkChange] = []
        eventually(lambda: told.extend(watch.changes()) or [each for each in told if each.up])
        for port in (0, 1):
            of_port = [(each.up, each.made_again) for each in told if each.port == port]
            assert of_port[0] == (False, False)
            assert [again for _, again in of_port].count(True) == 1
            assert of_port[-1][0] is True
