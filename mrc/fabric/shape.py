# SPDX-License-Identifier: BSD-2-Clause
"""What every fabric has, whatever its shape: hosts on leaves, one port each in every plane, and links between switches.

A shape is a frozen dataclass in mrc/fabric/shapes with the fields below, and others for its own sizes. It says which
links its switches have, which switches a packet passes from one leaf to another, and which loops probes travel. The
lab, the simulator, the map and the endpoints take everything from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Any, ClassVar

from mrc.errors import CallerError
from mrc.fabric.block import check_block
from mrc.fabric.names import Link, host_name, leaf_name, parse_switch
from mrc.fabric.next_hop import nodes_passed
from mrc.fabric.place import Place
from mrc.wire.usid import MAX_PER_PLANE, MAX_PLANES, PathTemplate

# How the switches choose a packet's way: uSIDs in the destination address, the same with the second half of them in a
# segment routing header, fields of a structured EV, the kernel's multipath over ports and flow label.
FORWARDING_MODES = ("srv6", "srv6-srh", "stev", "ecmp")
LEAST_MTU, MOST_MTU = 1280, 65535
# Fields of every shape that do not describe its size.
_NO_SIZES = ("mtu", "mode", "block")
# A way from one leaf to another: the numbers of both and of the uplink. None: any.
Way = tuple[int | None, int | None, int]


class ShapeError(CallerError):
    """A fabric that cannot be. `keys` are the values that do not fit, the likeliest one first."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


class Shape(ABC):
    """`planes` independent planes under `leaves * hosts_per_leaf` hosts; a host has the same leaf in every plane.

    `mtu` is in bytes, 1280..65535, and counts the outer IPv6 header. `mode` is one of `modes`. `block` is the first 32
    bits of every uSID address, 2000::/32 to fdff:ffff::/32 but not fd4d:5243::/32, where the plain addresses are.
    """

    __slots__ = ()

    # The name in a topology file, and the forwarding modes that fabrics of this shape have.
    kind: ClassVar[str]
    modes: ClassVar[tuple[str, ...]] = FORWARDING_MODES

    planes: int
    leaves: int
    hosts_per_leaf: int
    mtu: int
    mode: str
    block: int

    # ------------------------------------------------------------------ what each shape says

    @property
    @abstractmethod
    def uplinks(self) -> int:
        """How many ways there are from a leaf to another; an EV carries the number of one (wire.md section 11)."""

    @abstractmethod
    def fabric_links(self) -> Iterator[Link]:
        """The links between switches."""

    @staticmethod
    @abstractmethod
    def template(place: Place, leaf: int, host: int, block: int) -> PathTemplate:
        """The paths from `place` to host `host` on leaf `leaf`. Raises CallerError for a leaf that does not exist."""

    @staticmethod
    @abstractmethod
    def near_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """Loops of a host at `place` that turn at a node and come back the same way: the uSIDs of each."""

    @staticmethod
    @abstractmethod
    def far_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """Loops that come back another way than they went out, and so distinguish the directions of a cable."""

    @abstractmethod
    def plain_routes(self, near: str, far: str) -> Iterator[tuple[str, bool]]:
        """(prefix, whether this is one of several next hops) of what the switch `near` sends to its neighbour `far`
        in plain IPv6. No packet may run in circles, not even while links are down."""

    @property
    def spine_switches(self) -> tuple[str, ...]:
        """The names of all spines; none where the shape has no spines."""
        return ()

    # ------------------------------------------------------------------ nodes

    @property
    def host_count(self) -> int:
        """How many hosts there are."""
        return self.leaves * self.hosts_per_leaf

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts: h0, h1, ..."""
        return tuple(host_name(host) for host in range(self.host_count))

    @property
    def leaf_switches(self) -> tuple[str, ...]:
        """The names of all leaves: p0l0, p0l1, ..."""
        return tuple(leaf_name(plane, leaf) for plane in range(self.planes) for leaf in range(self.leaves))

    @property
    def switches(self) -> tuple[str, ...]:
        """The names of all switches, leaves first."""
        return self.leaf_switches + self.spine_switches

    @property
    def nodes(self) -> tuple[str, ...]:
        """Hosts first, then leaves, then spines: no link's lower end comes after its upper one."""
        return self.hosts + self.switches

    def leaf_of_host(self, host: int) -> int:
        """Return the number of the leaf that a host is on, the same in each plane."""
        return host // self.hosts_per_leaf

    def hosts_of_leaf(self, leaf: int) -> range:
        """Return the numbers of the hosts on a leaf."""
        return range(leaf * self.hosts_per_leaf, (leaf + 1) * self.hosts_per_leaf)

    # ------------------------------------------------------------------ links

    def host_links(self) -> Iterator[Link]:
        """Yield the links between hosts and leaves, plane by plane."""
        for plane in range(self.planes):
            for host in range(self.host_count):
                yield Link(host_name(host), leaf_name(plane, self.leaf_of_host(host)))

    @property
    def links(self) -> tuple[Link, ...]:
        """All links: those of hosts first."""
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
        return tuple(link for link in self.links if node in link.ends)

    def links_of_target(self, target: str) -> tuple[Link, ...]:
        """The links a target names: one link (`p0l0-p0s1`), all of a node (`p0s1`, `h0`), all of a plane (`plane:0`).

        Raises CallerError when it names nothing.
        """
        if target.startswith("plane:"):
            number = target.removeprefix("plane:")
            if not number.isdecimal() or int(number) >= self.planes:
                raise CallerError(f"no {target!r}: planes are plane:0 to plane:{self.planes - 1}")
            return tuple(link for link in self.links if link.plane == int(number))
        if "-" in target:
            return (self.link(target),)
        return self.links_of(target)

    # ------------------------------------------------------------------ paths

    def place(self, host: int, plane: int) -> Place:
        """Return where a host stands in a plane: what its paths follow from."""
        return Place(plane, self.leaf_of_host(host), self.leaves, self.uplinks, self.kind)

    def template_between(self, host: int, peer: int, plane: int = 0) -> PathTemplate:
        """The paths from one host to another in a plane."""
        return self.template(self.place(host, plane), self.leaf_of_host(peer), peer, self.block)

    def ways_over(self, name: str, toward: str | None = None) -> Iterator[Way]:
        """The ways between two leaves that pass the link or switch `name`; a link in one direction with `toward`.

        The ends of a way are not on it: a leaf is on the ways that pass through it.
        """
        plane = parse_switch(name.partition("-")[2] or name)[0]
        for leaf in range(self.leaves):
            for far in range(self.leaves):
                place = Place(plane, leaf, self.leaves, self.uplinks, self.kind)
                template = self.template(place, far, 0, self.block)
                for uplink in range(template.count(self.uplinks) if far != leaf else 0):
                    switches = nodes_passed(template.usids(plane, uplink))[:-1]
                    hops = {Link.between(*ends).name: ends[1] for ends in pairwise(switches)}
                    if name in switches[1:-1] or (name in hops and toward in (None, hops[name])):
                        yield leaf, far, uplink

    # ------------------------------------------------------------------ as plain data

    def to_json(self) -> dict[str, Any]:
        """What `mrc.fabric.shapes.shape_of` reads."""
        return {"shape": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @property
    def sizes(self) -> dict[str, Any]:
        """The name of the shape, and how large it is."""
        return {key: value for key, value in self.to_json().items() if key not in _NO_SIZES}

    def check(self, **ranges: tuple[int, int]) -> None:
        """Raises ShapeError for a value out of the range of its kind; `ranges` are those of the shape's own."""
        limits = {"planes": (1, MAX_PLANES), "leaves": (1, MAX_PER_PLANE), **ranges}
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise ShapeError(f"{name} must be {least}..{most}, got {getattr(self, name)}", name)
        if not 1 <= self.host_count <= MAX_PER_PLANE:
            raise ShapeError(
                f"leaves times hosts_per_leaf must be 1..{MAX_PER_PLANE}, got {self.host_count}",
                "hosts_per_leaf",
                "leaves",
            )
        if not LEAST_MTU <= self.mtu <= MOST_MTU:
            raise ShapeError(f"mtu must be {LEAST_MTU}..{MOST_MTU} bytes, got {self.mtu}", "mtu")
        if self.mode not in self.modes:
            raise ShapeError(f"mode must be one of {', '.join(self.modes)}, got {self.mode!r}", "mode")
        try:
            check_block(self.block)
        except CallerError as error:
            raise ShapeError(str(error), "block") from None
