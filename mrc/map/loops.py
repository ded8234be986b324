"""The loops a host's probes travel: out over switches named by uSIDs, and back to the host itself.

    leaf        host, own leaf, host
    spine       host, own leaf, a spine, own leaf, host
    far leaf    host, own leaf, a spine, another leaf, another spine, own leaf, host

The last of them takes all six uSIDs that an address holds. Since it comes back over another spine than it went out
by, it distinguishes the two directions of a cable, which a loop to a spine and straight back cannot; and it looks at
the cables of leaves whose own hosts are silent.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mrc.errors import CallerError
from mrc.wire.usid import MAX_PER_PLANE, MAX_PLANES, container, host_usid, leaf_usid, spine_usid

# Of so many probes one is to the own leaf or a spine: those to far leaves pass twice as many cables. With few leaves
# more are: only they pass a spine and no more than one of its cables.
_MOST_FAR_TO_NEAR = 6
# With more spines than this and one, not every pair of a way out and a way back is gone.
_MOST_WAYS_BACK = 3


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of host `host` on leaf `leaf` in `plane`, by numbers.

    `spine` None: turns at the own leaf. `far_leaf` None: turns at `spine`. Else over `spine` to `far_leaf` and back
    over `back_spine`. Raises CallerError for numbers out of range or a part that is missing.
    """

    plane: int
    host: int
    leaf: int
    spine: int | None = None
    far_leaf: int | None = None
    back_spine: int | None = None

    def __post_init__(self) -> None:
        others = (self.host, self.leaf, self.spine, self.far_leaf, self.back_spine)
        if not 0 <= self.plane < MAX_PLANES or not all(each is None or 0 <= each < MAX_PER_PLANE for each in others):
            raise CallerError(f"a number is out of range in {self}")
        if (self.far_leaf is None) != (self.back_spine is None) or (self.far_leaf is not None and self.spine is None):
            raise CallerError(f"a loop to a far leaf has a spine for the way out and one for the way back: {self}")
        if self.far_leaf == self.leaf:
            raise CallerError(f"the far leaf is the own one: {self}")

    @property
    def usids(self) -> tuple[int, ...]:
        """The uSIDs in the order in which they are passed, the host's own one last."""
        own, end = leaf_usid(self.plane, self.leaf), host_usid(self.plane, self.host)
        if self.spine is None:
            return own, end
        out = own, spine_usid(self.plane, self.spine)
        if self.far_leaf is None or self.back_spine is None:
            return (*out, own, end)
        return (*out, leaf_usid(self.plane, self.far_leaf), spine_usid(self.plane, self.back_spine), own, end)

    def address(self, block: int) -> int:
        """The 128-bit destination with which a probe leaves the host."""
        return container(block, self.usids)


@dataclass(frozen=True, slots=True)
class PlanePort:
    """Where a host stands in one plane: `leaf` it hangs on, of `leaves`, each with `spines` uplinks."""

    plane: int
    leaf: int
    leaves: int
    spines: int


def near_loops(host: int, port: PlanePort) -> tuple[Loop, ...]:
    """To the own leaf, and to each spine."""
    spines = (Loop(port.plane, host, port.leaf, spine) for spine in range(port.spines))
    return (Loop(port.plane, host, port.leaf), *spines)


def far_loops(host: int, port: PlanePort) -> tuple[Loop, ...]:
    """To each other leaf by each spine, and back by up to three others; by the same one where there is no other."""
    steps = range(1, min(port.spines, _MOST_WAYS_BACK + 1)) or range(1)
    return tuple(
        Loop(port.plane, host, port.leaf, spine, far, (spine + step) % port.spines)
        for step in steps
        for far in range(port.leaves)
        if far != port.leaf
        for spine in range(port.spines)
    )


def loops_of(host: int, ports: Sequence[PlanePort]) -> tuple[Loop, ...]:
    return tuple(loop for port in ports for loop in (*near_loops(host, port), *far_loops(host, port)))


def schedule(host: int, ports: Sequence[PlanePort], chance: random.Random) -> Iterator[Loop]:
    """Loops without end: the planes in turn; in each plane every near loop as often as any other, and every far one.

    The order within a round is drawn anew each time, so that nothing periodic in the fabric always meets the same
    loops.
    """
    planes = [
        (
            _rounds(near_loops(host, port), chance),
            _rounds(far_loops(host, port), chance),
            max(1, min(_MOST_FAR_TO_NEAR, 2 * (port.leaves - 1))),
        )
        for port in ports
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
