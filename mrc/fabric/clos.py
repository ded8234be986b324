"""A multi-plane leaf-spine fabric: its nodes, its links and their names.

Hosts are `h0`, `h1`, ...; leaves `p0l0` (plane 0, leaf 0); spines `p0s0`. A link is named by its two ends, the
lower tier first: `h0-p0l0`, `p0l0-p0s1`. Each host has one port per plane, on the leaf of the same number in
every plane.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mrc.errors import CallerError
from mrc.wire.usid import BLOCK_BITS, DEFAULT_BLOCK, MAX_PER_PLANE, MAX_PLANES

# How the switches choose a packet's way: uSIDs in the destination address, the same with the second half of them in a
# segment routing header, fields of a structured EV, the kernel's multipath over ports and flow label.
FORWARDING_MODES = ("srv6", "srv6-srh", "stev", "ecmp")
LEAST_MTU, MOST_MTU = 1280, 65535
# Unicast addresses below fe00::/8; the plain addresses of the lab's nodes lie in fd4d:5243::/32.
_LEAST_BLOCK, _MOST_BLOCK = 0x20000000, 0xFDFFFFFF
PLAIN_BLOCK = 0xFD4D5243
_LEAF_OR_SPINE = re.compile(r"p(\d+)([ls])(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Link:
    """One cable. `lower` is the host or leaf end, `upper` the leaf or spine end."""

    lower: str
    upper: str

    @property
    def name(self) -> str:
        return f"{self.lower}-{self.upper}"

    @property
    def ends(self) -> tuple[str, str]:
        return self.lower, self.upper


@dataclass(frozen=True, slots=True)
class Clos:
    """`planes` independent leaf-spine planes under `leaves * hosts_per_leaf` hosts.

    Ranges: planes 1..16, leaves and spines 1..256 per plane, hosts 1..256 in all (the uSID plan's limits).
    `mtu` is in bytes, 1280..65535, and counts the outer IPv6 header. `mode` is one of FORWARDING_MODES. `block` is
    the first 32 bits of every uSID address, 2000::/32 to fdff:ffff::/32 but not fd4d:5243::/32, where the plain
    addresses are. Raises CallerError outside them.
    """

    planes: int = 2
    leaves: int = 2
    spines: int = 4
    hosts_per_leaf: int = 1
    mtu: int = 4400
    mode: str = "srv6"
    block: int = DEFAULT_BLOCK

    def __post_init__(self) -> None:
        for name, value, most in (
            ("planes", self.planes, MAX_PLANES),
            ("leaves", self.leaves, MAX_PER_PLANE),
            ("spines", self.spines, MAX_PER_PLANE),
            ("leaves times hosts_per_leaf", self.leaves * self.hosts_per_leaf, MAX_PER_PLANE),
        ):
            if not 1 <= value <= most:
                raise CallerError(f"{name} must be 1..{most}, got {value}")
        if not LEAST_MTU <= self.mtu <= MOST_MTU:
            raise CallerError(f"mtu must be {LEAST_MTU}..{MOST_MTU} bytes, got {self.mtu}")
        if self.mode not in FORWARDING_MODES:
            raise CallerError(f"mode must be one of {', '.join(FORWARDING_MODES)}, got {self.mode!r}")
        if not _LEAST_BLOCK <= self.block <= _MOST_BLOCK or self.block == PLAIN_BLOCK:
            raise CallerError(
                f"block must be a /32 from 2000::/32 to fdff:ffff::/32 other than fd4d:5243::/32 "
                f"(the plain addresses), such as 5f00:0::/32, got {self.block:#010x}"
            )

    @property
    def host_count(self) -> int:
        return self.leaves * self.hosts_per_leaf

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"h{host}" for host in range(self.host_count))

    @property
    def leaf_switches(self) -> tuple[str, ...]:
        return tuple(leaf_name(plane, leaf) for plane in range(self.planes) for leaf in range(self.leaves))

    @property
    def spine_switches(self) -> tuple[str, ...]:
        return tuple(spine_name(plane, spine) for plane in range(self.planes) for spine in range(self.spines))

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.hosts + self.leaf_switches + self.spine_switches

    def leaf_of_host(self, host: int) -> int:
        return host // self.hosts_per_leaf

    def host_links(self) -> Iterator[Link]:
        for plane in range(self.planes):
            for host in range(self.host_count):
                yield Link(f"h{host}", leaf_name(plane, self.leaf_of_host(host)))

    def fabric_links(self) -> Iterator[Link]:
        for plane in range(self.planes):
            for leaf in range(self.leaves):
                for spine in range(self.spines):
                    yield Link(leaf_name(plane, leaf), spine_name(plane, spine))

    @property
    def links(self) -> tuple[Link, ...]:
        return (*self.host_links(), *self.fabric_links())

    def link(self, name: str) -> Link:
        """The link of that name, either end first. Raises CallerError with the nearest names when there is none."""
        by_name = {link.name: link for link in self.links}
        lower, _, upper = name.partition("-")
        found = by_name.get(name) or by_name.get(f"{upper}-{lower}")
        if found is None:
            near = [known for known in by_name if lower in known.split("-")] or list(by_name)
            raise CallerError(f"no link {name!r}: there are {', '.join(near[:8])}{' ...' if len(near) > 8 else ''}")
        return found

    def links_of(self, node: str) -> tuple[Link, ...]:
        """Every link with `node` at one end. Raises CallerError for an unknown node."""
        if node not in self.nodes:
            raise CallerError(f"no node {node!r}: hosts h0.., leaves p0l0.., spines p0s0..")
        return tuple(link for link in self.links if node in (link.lower, link.upper))


def leaf_name(plane: int, leaf: int) -> str:
    return f"p{plane}l{leaf}"


def spine_name(plane: int, spine: int) -> str:
    return f"p{plane}s{spine}"


def parse_block(text: str) -> int:
    """The 32-bit number of a uSID block written as an IPv6 prefix: `5f00:0::/32`. Raises CallerError."""
    try:
        network = ipaddress.IPv6Network(text)
    except ValueError as error:
        raise CallerError(f"{text!r} is not an IPv6 prefix of 32 bits such as 5f00:0::/32: {error}") from None
    if network.prefixlen != BLOCK_BITS:
        raise CallerError(f"{text!r} is not an IPv6 prefix of 32 bits such as 5f00:0::/32")
    return int(network.network_address) >> 128 - BLOCK_BITS


def block_text(block: int) -> str:
    """A uSID block as a prefix: `5f00::/32`."""
    return f"{ipaddress.IPv6Address(block << 128 - BLOCK_BITS)}/{BLOCK_BITS}"


def parse_switch(name: str) -> tuple[int, str, int]:
    """(plane, 'l' or 's', number) of a switch's name. Raises CallerError when it is not one."""
    match = _LEAF_OR_SPINE.match(name)
    if match is None:
        raise CallerError(f"{name!r} is not a switch name: leaves are p0l0, spines p0s0")
    return int(match[1]), match[2], int(match[3])
