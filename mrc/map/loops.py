# SPDX-License-Identifier: BSD-2-Clause
"""The loops a host's probes travel: out over switches named by uSIDs, and back to the host itself.

Near loops turn at a switch and come back the same way. Far loops come back another way than they went out: they
distinguish the two directions of a cable, which a near loop cannot, and look at the cables of leaves whose own hosts
are silent. Which there are is the shape's affair (mrc/fabric/shapes); none is longer than the six uSIDs of an address.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mrc.errors import CallerError
from mrc.fabric.address import node_of_usid
from mrc.fabric.names import parse_host
from mrc.fabric.place import Place
from mrc.fabric.shapes import shape_class
from mrc.wire.usid import USIDS_PER_CONTAINER, container

# Of so many probes one is to the own leaf or a spine: those to far leaves pass twice as many cables. With few leaves
# more are: only they pass a spine and no more than one of its cables.
_MOST_FAR_TO_NEAR = 6
# The own leaf and the host.
_SHORTEST = 2


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop in `plane`. `usids` are in the order in which they are passed: the own leaf first, the host's own last.

    Raises CallerError for uSIDs that make no loop.
    """

    plane: int
    usids: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _SHORTEST <= len(self.usids) <= USIDS_PER_CONTAINER:
            raise CallerError(f"a loop has {_SHORTEST} to {USIDS_PER_CONTAINER} uSIDs: {self}")
        nodes = [node_of_usid(usid) for usid in self.usids]
        if any(node is None or node[0] != self.plane for node in nodes):
            raise CallerError(f"a uSID is of another plane, or names no node, in {self}")
        *switches, last = [node[1] for node in nodes if node is not None]
        if parse_host(last) is None or any(parse_host(switch) is not None for switch in switches):
            raise CallerError(f"a loop passes switches and ends at a host: {self}")
        if switches[0] != switches[-1] or any(near == far for near, far in pairwise(switches)):
            raise CallerError(
                f"a loop comes back to the leaf where it began, never twice in a row to one switch: {self}"
            )

    @property
    def host(self) -> int:
        return self.usids[-1] & 0xFF

    def address(self, block: int) -> int:
        """The 128-bit destination with which a probe leaves the host."""
        return container(block, self.usids)


def near_loops(host: int, place: Place) -> tuple[Loop, ...]:
    return tuple(Loop(place.plane, usids) for usids in shape_class(place.shape).near_loops(place, host))


def far_loops(host: int, place: Place) -> tuple[Loop, ...]:
    return tuple(Loop(place.plane, usids) for usids in shape_class(place.shape).far_loops(place, host))


def loops_of(host: int, places: Sequence[Place]) -> tuple[Loop, ...]:
    return tuple(loop for place in places for loop in (*near_loops(host, place), *far_loops(host, place)))


def schedule(host: int, places: Sequence[Place], chance: random.Random) -> Iterator[Loop]:
    """Loops without end: the planes in turn; in each plane every near loop as often as any other, and every far one.

    The order within a round is drawn anew each time, so that nothing periodic in the fabric always meets the same
    loops.
    """
    planes = [
        (
            _rounds(near_loops(host, place), chance),
            _rounds(far_loops(host, place), chance),
            max(1, min(_MOST_FAR_TO_NEAR, 2 * (place.leaves - 1))),
        )
        for place in places
    ]
    turn = 0
    while True:
        for near, far, one_near_in in planes:
            loop = None if turn % one_near_in == 0 else next(far, None)
            yield next(near) if loop is None else loop
        turn += 1


def _rounds(loops: Sequence[Loop], chance: random.Random) -> Iterator[Loop]:
    while loops:
        yield from chance.sample(loops, len(loops))
