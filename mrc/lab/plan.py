"""What a fabric's shape means for each namespace: interfaces, addresses, neighbours, routes.

A pure function of `Clos`: no kernel, no netlink, nothing to clean up. The builder applies a plan once, and
healing a cut link applies the same pieces again, so what a link-down flushed comes back exactly as it was.

Interface indices are chosen here and unique in the whole fabric. Within one veth pair they must differ: the kernel
takes a device whose peer has the same index for one without a lower device and reports its carrier up to a
second late.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from mrc.errors import CallerError
from mrc.topology import Clos, Fabric, FabricPort, Link
from mrc.topology.clos import leaf_name, parse_switch, spine_name
from mrc.wire.usid import BLOCK_BITS, USID_BITS, address_text, container, host_usid, leaf_usid, spine_usid

BLOCK = 0x5F000000
USID_PREFIX = BLOCK_BITS + USID_BITS
# Nibble 1 and the plane's nibble of a leaf's uSID: all leaves of one plane.
PLANE_LEAVES_PREFIX = BLOCK_BITS + 8

LOOPBACK_INDEX = 1
# The device a switch's uSID routes name: a bridge without members, because a route dies with its device and
# this one never goes down.
USID_DEVICE = "usid0"
USID_DEVICE_INDEX = 99
FIRST_LINK_INDEX = 100


class RouteKind(Enum):
    """What a route does with a packet."""

    FORWARD = "forward"
    LOCAL = "local"
    BLACKHOLE = "blackhole"
    USID = "usid"


@dataclass(frozen=True, slots=True)
class Route:
    """One static route. `prefix` has its length; `one_of_many` marks one next hop of a multipath route."""

    prefix: str
    kind: RouteKind
    device_index: int
    gateway: str | None = None
    source: str | None = None
    one_of_many: bool = False


@dataclass(frozen=True, slots=True)
class Interface:
    """One end of a link, with everything a link-down takes away from it.

    `number` is the link's place in `Clos.links`; `upper` says which end of the cable this is.
    """

    node: str
    name: str
    number: int
    upper: bool
    addresses: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()

    @property
    def index(self) -> int:
        return FIRST_LINK_INDEX + 2 * self.number + self.upper

    @property
    def mac(self) -> str:
        return _mac(self.number, self.upper)

    @property
    def peer_mac(self) -> str:
        return _mac(self.number, not self.upper)

    @property
    def link_local(self) -> str:
        return _link_local(self.number, self.upper)

    @property
    def peer_link_local(self) -> str:
        return _link_local(self.number, not self.upper)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One namespace. `loopback_addresses` and `routes` do not depend on any link."""

    name: str
    is_switch: bool
    loopback_addresses: tuple[str, ...]
    routes: tuple[Route, ...]
    interfaces: tuple[Interface, ...] = field(default=())

    def interface(self, link: Link) -> Interface:
        """This node's end of `link`. Raises CallerError when the link does not end here."""
        if self.name not in (link.lower, link.upper):
            raise CallerError(f"link {link.name} does not end at {self.name}: it joins {link.lower} and {link.upper}")
        name = interface_name(link, self.name)
        return next(interface for interface in self.interfaces if interface.name == name)


def _mac(number: int, upper: bool) -> str:
    """A locally administered address that names its cable: 02:4d:52, link number, end (1 lower, 2 upper)."""
    return f"02:4d:52:{number >> 8:02x}:{number & 0xFF:02x}:{1 + upper:02x}"


def _link_local(number: int, upper: bool) -> str:
    return f"fe80::{number + 1:x}:{1 + upper}"


def _plain(plane: int, tier: int, number: int) -> str:
    return str(ipaddress.IPv6Address(f"fd4d:5243:{plane:x}:{tier:x}::{number:x}"))


def host_address(plane: int, host: int) -> str:
    """A host's plain (inner) IPv6 address in one plane: `fd4d:5243:PLANE::HOST+1`, both hexadecimal."""
    return _plain(plane, 0, host + 1)


def leaf_address(plane: int, leaf: int) -> str:
    return _plain(plane, 1, leaf + 1)


def spine_address(plane: int, spine: int) -> str:
    return _plain(plane, 2, spine + 1)


def interface_name(link: Link, node: str) -> str:
    """What `node` calls its end of `link`: a host names the plane (`p0`), a switch its neighbour (`h0`, `p0s1`)."""
    if node != link.lower:
        return link.lower
    return link.upper if link.lower[0] == "p" else f"p{parse_switch(link.upper)[0]}"


def _usid_prefix(usid: int, length: int = USID_PREFIX) -> str:
    return f"{address_text(container(BLOCK, (usid,)))}/{length}"


def plan(topology: Clos) -> dict[str, NodePlan]:
    """The plan of every node, by name, hosts first. Raises CallerError beyond 65,536 links."""
    if len(topology.links) > 1 << 16:
        raise CallerError(f"{len(topology.links)} links are more than the lab's address plan can number: at most 65536")
    interfaces: dict[str, list[Interface]] = {node: [] for node in topology.nodes}
    for number, link in enumerate(topology.links):
        for node, upper in ((link.lower, False), (link.upper, True)):
            bare = Interface(node, interface_name(link, node), number, upper)
            interfaces[node].append(_with_configuration(topology, link, bare))
    plans: dict[str, NodePlan] = {}
    for host, name in enumerate(topology.hosts):
        own = tuple(
            Route(_usid_prefix(host_usid(plane, host)), RouteKind.LOCAL, LOOPBACK_INDEX)
            for plane in range(topology.planes)
        )
        plans[name] = NodePlan(name, False, (), own, tuple(interfaces[name]))
    for name in topology.leaf_switches + topology.spine_switches:
        plane, tier, number = parse_switch(name)
        usid, address = (
            (leaf_usid(plane, number), leaf_address(plane, number))
            if tier == "l"
            else (spine_usid(plane, number), spine_address(plane, number))
        )
        own = (
            Route(_usid_prefix(usid), RouteKind.USID, USID_DEVICE_INDEX),
            # A switch drops what it has no uSID route for and says nothing: no ICMPv6 storm behind a cut.
            Route(f"{address_text(container(BLOCK, ()))}/{BLOCK_BITS}", RouteKind.BLACKHOLE, LOOPBACK_INDEX),
        )
        plans[name] = NodePlan(name, True, (address,), own, tuple(interfaces[name]))
    return plans


def _with_configuration(topology: Clos, link: Link, end: Interface) -> Interface:
    addresses: tuple[str, ...] = ()
    routes: Iterator[Route]
    plane, tier, number = parse_switch(link.upper)
    if tier == "l":
        host = int(link.lower[1:])
        if end.upper:
            routes = _leaf_down(plane, host, end)
        else:
            addresses = (host_address(plane, host),)
            routes = _host_up(plane, addresses[0], end)
    elif end.upper:
        routes = _spine_down(topology, plane, parse_switch(link.lower)[2], end)
    else:
        routes = _leaf_up(plane, number, end)
    return Interface(end.node, end.name, end.number, end.upper, addresses, tuple(routes))


def _forward(end: Interface, prefix: str, source: str | None = None, one_of_many: bool = False) -> Route:
    return Route(prefix, RouteKind.FORWARD, end.index, end.peer_link_local, source, one_of_many)


def _host_up(plane: int, address: str, end: Interface) -> Iterator[Route]:
    yield _forward(end, _usid_prefix(leaf_usid(plane, 0), PLANE_LEAVES_PREFIX), source=address)
    yield _forward(end, f"fd4d:5243:{plane:x}::/48", source=address)


def _leaf_down(plane: int, host: int, end: Interface) -> Iterator[Route]:
    yield _forward(end, _usid_prefix(host_usid(plane, host)))
    yield _forward(end, f"{host_address(plane, host)}/128")


def _leaf_up(plane: int, spine: int, end: Interface) -> Iterator[Route]:
    yield _forward(end, _usid_prefix(spine_usid(plane, spine)))
    yield _forward(end, f"{spine_address(plane, spine)}/128")
    # Plain IPv6 to other leaves: the kernel's multipath over every spine of the plane.
    yield _forward(end, f"fd4d:5243:{plane:x}::/64", one_of_many=True)
    yield _forward(end, f"fd4d:5243:{plane:x}:1::/64", one_of_many=True)


def _spine_down(topology: Clos, plane: int, leaf: int, end: Interface) -> Iterator[Route]:
    yield _forward(end, _usid_prefix(leaf_usid(plane, leaf)))
    yield _forward(end, f"{leaf_address(plane, leaf)}/128")
    for host in range(topology.host_count):
        if topology.leaf_of_host(host) == leaf:
            yield _forward(end, f"{host_address(plane, host)}/128")


def host_fabric(topology: Clos, host: int, name: str) -> Fabric:
    """What host `host` must know of the lab `name`: the document behind MRC_FABRIC."""
    ports = tuple(
        FabricPort(plane, f"p{plane}", host_address(plane, host), topology.leaf_of_host(host), topology.spines)
        for plane in range(topology.planes)
    )
    return Fabric(name=name, host=host, mtu=topology.mtu, ports=ports, block=BLOCK)


def links_of_target(topology: Clos, target: str) -> tuple[Link, ...]:
    """The links a target names: one link (`p0l0-p0s1`), every link of a node (`p0s1`, `h0`), of a plane (`plane:0`).

    Raises CallerError when it names nothing.
    """
    if target.startswith("plane:"):
        number = target.removeprefix("plane:")
        if not number.isdecimal() or int(number) >= topology.planes:
            raise CallerError(f"no {target!r}: planes are plane:0 to plane:{topology.planes - 1}")
        plane = int(number)
        switches = {leaf_name(plane, leaf) for leaf in range(topology.leaves)}
        switches |= {spine_name(plane, spine) for spine in range(topology.spines)}
        return tuple(link for link in topology.links if link.upper in switches)
    if "-" in target:
        return (topology.link(target),)
    return topology.links_of(target)
