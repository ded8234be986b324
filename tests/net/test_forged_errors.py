# SPDX-License-Identifier: BSD-2-Clause
"""No forged ICMP error makes the kernel refuse or fragment what a sending socket of ours sends (docs/security.md)."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from forged_icmp import (
    IPV6_IN_IPV6,
    KINDS4,
    KINDS6,
    ROUTING,
    TOO_BIG,
    UDP,
    Forger,
    Kind,
    error,
    guesses,
    ipv4,
    ipv6,
    redirects4,
)
from patience import PATIENCE_S, eventually, until_in_use

from mrc.conformance.live import tester_port
from mrc.fabric.host_view import FabricPort
from mrc.lab.namespace import in_namespace, unshare_network
from mrc.map.agent import ProbeSocket
from mrc.net.mtu import FullPackets
from mrc.net.sockets import Srv6Port
from mrc.net.udp_port import UdpPort
from mrc.threads import in_thread
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
ROUTED = "10.99.0.1"  # behind a router, whose address is THEIRS
ANOTHER_ROUTER = "10.8.0.3"
MRC_PORT = 4791


class Cable:
    """Namespaces of `ours` and of `theirs`, interface e0 in each."""

    def __init__(self) -> None:
        self.ours, self.theirs = in_thread(unshare_network), in_thread(unshare_network)
        far = f"/proc/{os.getpid()}/fd/{self.theirs}"
        self.at(self.ours, lambda: self._ip("link add e0 mtu 9000 type veth peer name e0 mtu 9000 netns", far))
        for end, addresses in ((self.ours, OURS), (self.theirs, THEIRS)):
            self.at(end, lambda addresses=addresses: self._set_up(addresses))
        self.at(self.ours, lambda: self._ip(f"-6 route add 5f00::/32 via {THEIRS[6]} dev e0"))
        self.at(self.theirs, lambda: self._ip(f"addr add {ANOTHER_ROUTER}/24 dev e0"))
        self.at(self.ours, lambda: self._ip(f"route add 10.99.0.0/24 via {THEIRS[4]} dev e0"))
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
        found = self._route(destination).get("metrics") or [{}]
        return found[0].get("mtu")

    def gateway(self, destination: str) -> str | None:
        """Where the kernel of `ours` sends packets for a destination to."""
        return self._route(destination).get("gateway")

    def _route(self, destination: str) -> dict[str, Any]:
        argv = ["ip", "-j", "route", "get", destination]
        shown = self.at(self.ours, lambda: subprocess.run(argv, check=True, capture_output=True).stdout)
        return json.loads(shown)[0]

    def accept_redirects(self, yes: bool) -> None:
        """Both settings: IPv4 redirects are taken when either says so, secure ones from known routers only."""

        def write() -> None:
            for where in ("all", "e0"):
                for name, value in (("accept_redirects", yes), ("secure_redirects", False)):
                    Path(f"/proc/sys/net/ipv4/conf/{where}/{name}").write_text(str(int(value)))

        self.at(self.ours, write)

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
            body = MRC_PORT.to_bytes(2, "big") * 2 + (len(body) + 8).to_bytes(2, "big") + bytes(2) + body
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


class Attack:
    """A sending socket of ours, somebody who forges errors, and what arrives at the far end of the cable."""

    def __init__(self, cable: Cable, sending: Sending, stack: ExitStack) -> None:
        self.cable, self._sending = cable, sending
        self._sock: socket.socket = getattr(
            stack.enter_context(closing(cable.at(cable.ours, sending.open))), sending.attribute
        )
        self._forger = stack.enter_context(closing(cable.at(cable.theirs, Forger)))
        self._heard = stack.enter_context(closing(cable.at(cable.theirs, listener)))
        self._ours = OURS[sending.version]
        cable.forget()

    def send(self) -> bytes:
        """A full packet leaves and arrives in one piece, as which it is returned."""
        packet, destination = self._sending.packet(), self._sending.destination
        assert self._sock.sendto(packet, (destination, 0)) == len(packet)
        found = b""
        while packet[-LONG:] not in found:
            found = self._heard.recv(65536)
        return found

    def forge(self, kind: Kind, *quotes: bytes, source: str = "") -> None:
        """The kernel has taken this error, once for each quote."""
        before = self._taken()
        for quote in quotes:
            self._forger.send(error(kind, source or SOMEBODY[kind.version], self._ours, quote))
        eventually(lambda: self._taken() >= before + len(quotes))

    def _taken(self) -> int:
        """ICMP messages of the attacked version that the kernel got; none of them had a wrong checksum."""

        def read() -> dict[str, int]:
            own = Path("/proc/thread-self/net")
            if self._sending.version == 6:
                return {name: int(value) for name, value in map(str.split, (own / "snmp6").read_text().splitlines())}
            lines = [line.split() for line in (own / "snmp").read_text().splitlines() if line.startswith("Icmp:")]
            return {f"Icmp6{name}": int(value) for name, value in zip(lines[0][1:], lines[1][1:], strict=True)}

        counters = self.cable.at(self.cable.ours, read)
        assert counters["Icmp6InCsumErrors"] == 0
        return counters["Icmp6InMsgs"]


@pytest.fixture
def attack(cable: Cable, request: pytest.FixtureRequest) -> Iterator[Attack]:
    with ExitStack() as stack:
        yield Attack(cable, request.param, stack)


def each(sending: tuple[Sending, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", sending, ids=lambda one: one.name, indirect=True)


def with_kinds() -> list[Any]:
    """Every way MRC itself sends, with every kind of error of its IP version."""
    kinds = {6: KINDS6, 4: KINDS4}
    return [
        pytest.param(one, kind, id=f"{one.name}, {kind.name}") for one in SENDING[:4] for kind in kinds[one.version]
    ]


@each(SENDING)
def test_a_forged_packet_too_big_does_not_stop_a_sender(cable: Cable, attack: Attack) -> None:
    """The kernel remembers the path MTU, and our sockets send whole packets anyway."""
    sending = attack._sending
    attack.send()
    quotes = guesses(OURS[sending.version], sending.destination).values()
    attack.forge(TOO_BIG[sending.version], *quotes)
    # It is in the cache of routes: what is asserted below is not for want of a forgery that works.
    eventually(lambda: cable.cached_mtu(sending.destination) in (1280, 576))
    for _ in range(3):
        attack.send()


@pytest.mark.parametrize(("attack", "kind"), with_kinds(), indirect=["attack"])
def test_no_kind_of_error_stops_a_sender(attack: Attack, kind: Kind) -> None:
    """Off the path, with guessed quotes; on it, quoting what was just sent. From anybody and from the peer."""
    sending = attack._sending
    version = sending.version
    on_path = attack.send()
    quotes = (*guesses(OURS[version], sending.destination).values(), on_path)
    attack.forge(kind, *quotes)
    attack.forge(kind, *quotes, source=THEIRS[version])
    for _ in range(2):
        attack.send()


@each(tuple(one for one in SENDING[:4] if one.version == 4))
def test_redirects_of_a_neighbour_are_not_taken(cable: Cable, attack: Attack) -> None:
    """Where there is no router between the ends: there is nothing that could be redirected."""
    quotes = guesses(OURS[4], THEIRS[4]).values()
    attack.send()
    for kind in redirects4(SOMEBODY[4]):
        attack.forge(kind, *quotes, source=THEIRS[4])
        attack.send()


@each((Sending("udp over IPv4, routed", lambda: UdpPort(0, fabric_port(4), FULL, (4791,)), 4, ROUTED, UDP, False),))
def test_a_redirect_behind_a_router_is_taken_only_where_the_host_accepts_redirects(
    cable: Cable, attack: Attack
) -> None:
    """The kernel believes whoever uses the router's address: `accept_redirects` keeps it from that."""
    quotes = guesses(OURS[4], ROUTED).values()
    cable.accept_redirects(False)
    attack.send()
    for kind in redirects4(ANOTHER_ROUTER):
        for _ in range(2):  # the first has the kernel ask for the neighbour
            attack.forge(kind, *quotes, source=THEIRS[4])
        attack.send()
    assert cable.gateway(ROUTED) == THEIRS[4]
    cable.accept_redirects(True)

    def redirected() -> bool:
        attack.forge(next(redirects4(ANOTHER_ROUTER)), *quotes, source=THEIRS[4])
        return cable.gateway(ROUTED) == ANOTHER_ROUTER

    eventually(redirected)
    attack.send()
