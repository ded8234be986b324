# SPDX-License-Identifier: BSD-2-Clause
"""Leaves and spines: in each plane every leaf has a link to every spine, and every path passes one spine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mrc.fabric.address import host_prefix, hosts_prefix, leaves_prefix, node_prefix
from mrc.fabric.names import LEAF, SPINE, Link, leaf_name, parse_switch, spine_name
from mrc.fabric.place import Place
from mrc.fabric.shape import Shape, Way
from mrc.wire.usid import DEFAULT_BLOCK, MAX_PER_PLANE, UsidTemplate, host_usid, leaf_usid, spine_usid

# With more spines than this and one, not every pair of a way out and a way back is among the far loops.
_MOST_WAYS_BACK = 3


@dataclass(frozen=True, slots=True)
class Clos(Shape):
    """`planes` independent leaf-spine planes under `leaves * hosts_per_leaf` hosts.

    Ranges: planes 1..16, leaves and spines 1..256 per plane, hosts 1..256 in all (the uSID plan's limits). The others
    are those of every shape. Raises CallerError outside them.

    >>> fabric = Clos(planes=2, spines=2)
    >>> fabric.hosts, len(fabric.links)
    (('h0', 'h1'), 12)
    >>> [link.name for link in fabric.links_of_target("p0s1")]
    ['p0l0-p0s1', 'p0l1-p0s1']
    """

    kind: ClassVar[str] = "clos"

    planes: int = 2
    leaves: int = 2
    spines: int = 4
    hosts_per_leaf: int = 1
    mtu: int = 4400
    mode: str = "srv6"
    block: int = DEFAULT_BLOCK

    def __post_init__(self) -> None:
        self.check(spines=(1, MAX_PER_PLANE))

    @property
    def uplinks(self) -> int:
        return self.spines

    @property
    def spine_switches(self) -> tuple[str, ...]:
        """The names of all spines: p0s0, p0s1, ..."""
        return tuple(spine_name(plane, spine) for plane in range(self.planes) for spine in range(self.spines))

    def fabric_links(self) -> Iterator[Link]:
        for plane in range(self.planes):
            for leaf in range(self.leaves):
                for spine in range(self.spines):
                    yield Link(leaf_name(plane, leaf), spine_name(plane, spine))

    @staticmethod
    def template(place: Place, leaf: int, host: int, block: int) -> UsidTemplate:
        return UsidTemplate(place.leaf, leaf, host, block)

    @staticmethod
    def near_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """To the own leaf, and to each spine."""
        own, end = leaf_usid(place.plane, place.leaf), host_usid(place.plane, host)
        spines = ((own, spine_usid(place.plane, spine), own, end) for spine in range(place.uplinks))
        return ((own, end), *spines)

    @staticmethod
    def far_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """To each other leaf by each spine, and back by up to three others; by the same one where there is no other."""
        plane = place.plane
        own, end = leaf_usid(plane, place.leaf), host_usid(plane, host)
        spines = [spine_usid(plane, spine) for spine in range(place.uplinks)]
        steps = range(1, min(place.uplinks, _MOST_WAYS_BACK + 1)) or range(1)
        return tuple(
            (own, out, leaf_usid(plane, far), spines[(spine + step) % place.uplinks], own, end)
            for step in steps
            for far in range(place.leaves)
            if far != place.leaf
            for spine, out in enumerate(spines)
        )

    def plain_routes(self, near: str, far: str) -> Iterator[tuple[str, bool]]:
        plane, tier, number = parse_switch(far)
        yield node_prefix(far, plane), False
        if tier == SPINE:
            yield hosts_prefix(plane), True
            yield leaves_prefix(plane), True
        else:
            for host in self.hosts_of_leaf(number):
                yield host_prefix(host, plane), False

    def ways_over(self, name: str, toward: str | None = None) -> Iterator[Way]:
        lower, _, upper = name.partition("-")
        if upper:
            leaf, spine = parse_switch(lower)[2], parse_switch(upper)[2]
            if toward != lower:
                yield leaf, None, spine
            if toward != upper:
                yield None, leaf, spine
        elif parse_switch(name)[1] != LEAF:
            yield None, None, parse_switch(name)[2]


SHAPE = Clos
