"""No ICMP error makes the kernel refuse or cut what a sending socket of ours sends."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest
from forged_icmp import IPV6_IN_IPV6, ROUTING, TOO_BIG, UDP, Forger, error, guesses, ipv4, ipv6
from patience import PATIENCE_S, eventually, until_in_use

from mrc.conformance.live import tester_port
from mrc.lab.namespace import in_namespace, in_thread, unshare_network
from mrc.map.agent import ProbeSocket
from mrc.net.mtu import FullPackets
from mrc.net.sockets import Srv6Port
from mrc.net.udp_port import UdpPort
from mrc.topology.fabric import FabricPort
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]

LONG = 4000
FULL = FullPackets(4096, 100)
OURS = {4: "10.8.0.1", 6: "fd08::1"}
THEIRS = {4: "10.8.0.2", 6: "fd08::2"}
USID = "5f00:0:2000:1000:4001::"  # a packet's way through a fabric
SOMEBODY = {4: "10.8.0.77", 6: "fd08::77"}  # a router that is not there
NOT_USED = 4791


class Cable:
    """Namespaces of `ours` and of `theirs`, interface e0 in each."""

    def __init__(self) -> None:
        self.ours, self.theirs = in_thread(unshare_network), in_thread(unshare_network)
        far = f"/proc/{os.getpid()}/fd/{self.theirs}"
        self.at(self.ours, lambda: self._ip("link add e0 mtu 9000 type veth peer name e0 mtu 9000 netns", far))
        for end, addresses in ((self.ours, OURS), (self.theirs, THEIRS)):
            self.at(end, lambda addresses=addresses: self._set_up(addresses))
        self.at(self.ours, lambda: self._ip(f"-6 route add 5f00::/32 via {THEIRS[6]} dev e0"))
        for end in (self.ours, self.theirs):
            self.at(end, lambda: until_in_use({"e0"}))

    @staticmethod
    def at(end: int, function: Callable[[], Any]) -> Any:
        return in_namespace(end, function)

    @staticmethod
    def _ip(words: str, *more: str) -> None:
        subprocess.run(["ip", *words.split(), *more], check=True)

    def _set_up(self, addresses: dict[int, str]) -> None:
        self._ip("link set lo up")
        self._ip(f"addr add {addresses[4]}/24 dev e0")
        self._ip(f"addr add {addresses[6]}/64 dev e0 nodad")
        self._ip("link set e0 up")

    def cached_mtu(self, destination: str) -> int | None:
        """The path MTU that the kernel of `ours` remembers for a destination."""
        argv = ["ip", "-j", "route", "get", destination]

        def shown() -> list[dict[str, Any]]:
            return json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)

        found = self.at(self.ours, shown)[0].get("metrics") or [{}]
        return found[0].get("mtu")

    def forget(self) -> None:
        """Forget what was learned of paths."""
        for version in ("-4", "-6"):
            self.at(self.ours, lambda version=version: self._ip(f"{version} route flush cache"))

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture(scope="module")
def cable() -> Iterator[Cable]:
    with closing(Cable()) as made:
        yield made


@dataclass(frozen=True)
class Sending:
    """A way of sending of ours: what opens it, its socket, where it sends, and what carries the payload there."""

    name: str
    open: Callable[[], Any]
    version: int
    destination: str
    carries: int
    whole: bool  # we write the IP header
    attribute: str = "sender"

    def packet(self) -> bytes:
        body = secrets.token_bytes(LONG)
        if self.carries == UDP:
            body = NOT_USED.to_bytes(2, "big") * 2 + (len(body) + 8).to_bytes(2, "big") + bytes(2) + body
        if not self.whole:
            return body
        if self.version == 4:
            return ipv4(self.carries, OURS[4], self.destination, body)
        return ipv6(self.carries, OURS[6], self.destination, body)


def fabric_port(version: int) -> FabricPort:
    return FabricPort(0, "e0", OURS[version], 0, 0)


SENDING = (
    Sending("srv6", lambda: Srv6Port(0, fabric_port(6), FULL), 6, USID, IPV6_IN_IPV6, True),
    Sending("srv6-srh", lambda: Srv6Port(0, fabric_port(6), FULL, srh=True), 6, USID, ROUTING, True),
    Sending("udp over IPv6", lambda: UdpPort(0, fabric_port(6), FULL, (4791,)), 6, THEIRS[6], UDP, False),
    Sending("udp over IPv4", lambda: UdpPort(0, fabric_port(4), FULL, (4791,)), 4, THEIRS[4], UDP, False),
    Sending(
        "a map agent",
        lambda: ProbeSocket(fabric_port(6), 0x5F000000, bytes(16), bytes(4), DEFAULT_WIRE_PROFILE),
        6,
        USID,
        IPV6_IN_IPV6,
        False,
    ),
    Sending(
        "a tester over IPv6",
        lambda: tester_port.TesterPort(fabric_port(6), uses_usids=True, udp_ports=(4791,)),
        6,
        USID,
        IPV6_IN_IPV6,
        True,
        "_sender",
    ),
    Sending(
        "a tester over IPv4",
        lambda: tester_port.TesterPort(fabric_port(4), uses_usids=False, udp_ports=(4791,)),
        4,
        THEIRS[4],
        UDP,
        True,
        "_sender",
    ),
)


def listener() -> socket.socket:
    """Everything that arrives at e0."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
    opened.bind(("e0", 0x0003))
    opened.settimeout(PATIENCE_S)
    return opened


@pytest.mark.parametrize("sending", SENDING, ids=lambda each: each.name)
def test_a_forged_packet_too_big_does_not_stop_a_sender(cable: Cable, sending: Sending) -> None:
    """docs/security.md, ICMP: the kernel remembers a forged path MTU, and our sockets send whole packets anyway."""
    cable.forget()
    with ExitStack() as stack:
        port = stack.enter_context(closing(cable.at(cable.ours, sending.open)))
        forger = stack.enter_context(closing(cable.at(cable.theirs, Forger)))
        heard = stack.enter_context(closing(cable.at(cable.theirs, listener)))
        sock: socket.socket = getattr(port, sending.attribute)

        def send() -> None:
            """A long packet leaves, and arrives in one piece."""
            packet = sending.packet()
            assert sock.sendto(packet, (sending.destination, 0)) == len(packet)
            eventually(lambda: packet[-LONG:] in heard.recv(65536))

        send()
        too_big = TOO_BIG[sending.version]
        for quote in (*guesses(OURS[sending.version], sending.destination).values(), sending.packet()[:1000]):
            forger.send(error(too_big, SOMEBODY[sending.version], OURS[sending.version], quote))
        # It is in the cache of routes: what is asserted below is not for want of a forgery that works.
        eventually(lambda: cable.cached_mtu(sending.destination) in (1280, 576))
        for _ in range(3):
            send()
