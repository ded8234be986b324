# SPDX-License-Identifier: BSD-2-Clause
"""A ring of leaves: in each plane every leaf has a link to the next one, and packets go around it either way.

Uplink 0 of a leaf leads clockwise, to the leaf of the next higher number, uplink 1 counter-clockwise. A path names
every leaf that it passes, so paths differ in length: from two uSIDs between hosts of one leaf to six.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mrc.errors import CallerError
from mrc.fabric.address import host_prefix, node_prefix
from mrc.fabric.names import Link, leaf_name, parse_switch
from mrc.fabric.place import Place
from mrc.fabric.shape import Shape
from mrc.records import record
from mrc.wire.usid import DEFAULT_BLOCK, USIDS_PER_CONTAINER, PlannedEvs, container, host_usid, leaf_usid

_LEAST_LEAVES = 3
# The long way round from a leaf to its neighbour passes all leaves; the last uSID is the host's.
_MOST_LEAVES = USIDS_PER_CONTAINER - 1
_CLOCKWISE, _COUNTER_CLOCKWISE = 1, -1
_DIRECTIONS = (_CLOCKWISE, _COUNTER_CLOCKWISE)


@record(frozen=True, slots=True)
class RingTemplate(PlannedEvs):
    """The paths from a leaf to a host on another: clockwise, and counter-clockwise."""

    source_leaf: int
    destination_leaf: int
    destination_host: int
    leaves: int
    block: int = DEFAULT_BLOCK

    def count(self, uplinks: int) -> int:
        """Both directions; one path under a shared leaf."""
        return 1 if self.source_leaf == self.destination_leaf else uplinks

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        """Every leaf on the way and the host. Hosts under one leaf have one path per plane."""
        if uplink not in range(len(_DIRECTIONS)):
            raise CallerError(f"uplink must be 0..{len(_DIRECTIONS) - 1}, got {uplink}")
        way = _around(self.source_leaf, self.destination_leaf, _DIRECTIONS[uplink], self.leaves)
        return (*(leaf_usid(plane, leaf) for leaf in way), host_usid(plane, self.destination_host))

    def address(self, plane: int, uplink: int) -> int:
        """The 128-bit outer destination as it leaves the host."""
        return container(self.block, self.usids(plane, uplink))


@dataclass(frozen=True, slots=True)
class Ring(Shape):
    """`planes` independent rings of 3 to 5 leaves, `hosts_per_leaf` hosts on each.

    With more leaves the long way round has more uSIDs than an address holds. Raises CallerError for a value out of
    range. Packets find their way by uSIDs alone.
    """

    kind: ClassVar[str] = "ring"
    modes: ClassVar[tuple[str, ...]] = ("srv6", "srv6-srh")

    planes: int = 2
    leaves: int = 4
    hosts_per_leaf: int = 1
    mtu: int = 4400
    mode: str = "srv6"
    block: int = DEFAULT_BLOCK

    def __post_init__(self) -> None:
        self.check(leaves=(_LEAST_LEAVES, _MOST_LEAVES))

    @property
    def uplinks(self) -> int:
        return len(_DIRECTIONS)

    def fabric_links(self) -> Iterator[Link]:
        for plane in range(self.planes):
            for leaf in range(self.leaves):
                yield Link.between(leaf_name(plane, leaf), leaf_name(plane, (leaf + 1) % self.leaves))

    @staticmethod
    def template(place: Place, leaf: int, host: int, block: int) -> RingTemplate:
        if not 0 <= leaf < place.leaves:
            raise CallerError(f"leaf must be 0..{place.leaves - 1} in a ring of {place.leaves} leaves, got {leaf}")
        return RingTemplate(place.leaf, leaf, host, place.leaves, block)

    @staticmethod
    def near_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """To the own leaf, and one and two leaves far each way, as far as there is another leaf."""
        return tuple(
            _loop(place, host, [*way, *way[-2::-1]])
            for way in (
                [place.leaf],
                *(
                    [(place.leaf + direction * step) % place.leaves for step in range(hops + 1)]
                    for hops in (1, 2)
                    for direction in _DIRECTIONS
                ),
            )
        )

    @staticmethod
    def far_loops(place: Place, host: int) -> tuple[tuple[int, ...], ...]:
        """Once around each way. A ring of five has none: it would take seven uSIDs."""
        if place.leaves + 2 > USIDS_PER_CONTAINER:
            return ()
        around = [(place.leaf + step) % place.leaves for step in range(place.leaves + 1)]
        return _loop(place, host, around), _loop(place, host, around[::-1])

    def plain_routes(self, near: str, far: str) -> Iterator[tuple[str, bool]]:
        """The shorter way to each leaf and its hosts, clockwise where both are as long; while a cable on it is cut,
        none: a leaf that took the other way might get the packet back."""
        plane, _, here = parse_switch(near)
        there = parse_switch(far)[2]
        for leaf in range(self.leaves):
            if leaf != here and there == self._plain_next(here, leaf):
                yield node_prefix(leaf_name(plane, leaf), plane), False
                for host in self.hosts_of_leaf(leaf):
                    yield host_prefix(host, plane), False

    def _plain_next(self, here: int, leaf: int) -> int:
        clockwise = (leaf - here) % self.leaves
        direction = _CLOCKWISE if clockwise <= self.leaves - clockwise else _COUNTER_CLOCKWISE
        return (here + direction) % self.leaves


def _around(leaf: int, far: int, direction: int, leaves: int) -> list[int]:
    """The leaves from one to another, both included."""
    hops = (far - leaf) * direction % leaves
    return [(leaf + direction * step) % leaves for step in range(hops + 1)]


def _loop(place: Place, host: int, leaves: list[int]) -> tuple[int, ...]:
    return (*(leaf_usid(place.plane, leaf) for leaf in leaves), host_usid(place.plane, host))


SHAPE = Ring
