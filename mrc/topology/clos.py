"""A multi-plane leaf-spine fabric: its nodes, its links and their names.

Hosts are `h0`, `h1`, ...; leaves `p0l0` (plane 0, leaf 0); spines `p0s0`. A link is named by its two ends, the
lower tier first: `h0-p0l0`, `p0l0-p0s1`. Each host has one port per plane, on the leaf of the same number in
every plane.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mrc.errors import CallerError
from mrc.wire.usid import MAX_PER_PLANE, MAX_PLANES

_LEAF_OR_SPINE = re.compile(r"p(\d+)([ls])(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Link:
    """One cable. `lower` is the host or leaf end, `upper` the leaf or spine end."""

    lower: str
    upper: str

    @property
    def name(self) -> str:
        return f"{self.lower}-{self.upper}"


@dataclass(frozen=True, slots=True)
class Clos:
    """`planes` independent leaf-spine planes under `leaves * hosts_per_leaf` hosts.

    Ranges: planes 1..16, leaves and spines 1..256 per plane, hosts 1..256 in all (the uSID plan's limits).
    `mtu` is in bytes and counts the outer IPv6 header. Raises CallerError outside them.
    """

    planes: int = 2
    leaves: int = 2
    spines: int = 4
    hosts_per_leaf: int = 1
    mtu: int = 4400

    def __post_init__(self) -> None:
        for name, value, most in (
            ("planes", self.planes, MAX_PLANES),
            ("leaves", self.leaves, MAX_PER_PLANE),
            ("spines", self.spines, MAX_PER_PLANE),
            ("hosts", self.leaves * self.hosts_per_leaf, MAX_PER_PLANE),
        ):
            if not 1 <= value <= most:
                raise CallerError(f"{name} must be 1..{most}, got {value}")
        if not 1280 <= self.mtu <= 65535:
            raise CallerError(f"mtu must be 1280..65535 bytes, got {self.mtu}")

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


def parse_switch(name: str) -> tuple[int, str, int]:
    """(plane, 'l' or 's', number) of a switch's name. Raises CallerError when it is not one."""
    match = _LEAF_OR_SPINE.match(name)
    if match is None:
        raise CallerError(f"{name!r} is not a switch name: leaves are p0l0, spines p0s0")
    return int(match[1]), match[2], int(match[3])
