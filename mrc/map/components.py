# SPDX-License-Identifier: BSD-2-Clause
"""What may be faulty in one plane, and how often each loop passes it.

A suspect is one explanation: a cable both ways, one direction of it, a host's port, a leaf, a spine, the plane.
Suspects that all loops pass in the same proportion cannot be distinguished by any result: the most specific stands for
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mrc.fabric.names import LEAF, SPINE, Link, parse_switch
from mrc.fabric.next_hop import nodes_passed
from mrc.map.loops import Loop

F64 = npt.NDArray[np.float64]


class Kind(Enum):
    """What a component is. Of two that cannot be distinguished, the one that comes first here is named."""

    LINK = "link"
    HOST_PORT = "host-port"
    LEAF = "leaf"
    SPINE = "spine"
    PLANE = "plane"


_SWITCHES = {LEAF: Kind.LEAF, SPINE: Kind.SPINE}


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the fabric by the name it has in the lab: `p0l0-p0s1`, `h0-p0l0`, `p0l0`, `p0s1`, `plane:0`."""

    kind: Kind
    name: str
    plane: int

    @property
    def directions(self) -> tuple[str, ...]:
        """The ends that packets travel toward, of a cable whose directions loops can distinguish; else none."""
        if self.kind is not Kind.LINK:
            return ()
        lower, _, upper = self.name.partition("-")
        return upper, lower


@dataclass(frozen=True, slots=True)
class Suspect:
    """`component`, in all its directions (`toward` None) or one. `also`: what no loop can distinguish from it."""

    component: Component
    toward: str | None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspects:
    """All suspects of a plane under `loops`: column c of `passes` [loop, suspect] says how often each loop passes c."""

    listed: tuple[Suspect, ...]
    passes: F64

    def columns_of(self, name: str) -> list[int]:
        """The columns that make up a component: one, or one for each direction of a cable."""
        found = [number for number, each in enumerate(self.listed) if each.component.name == name]
        one_way = [number for number in found if self.listed[number].toward is not None]
        return one_way or found


def suspects_of(plane: int, loops: Sequence[Loop]) -> Suspects:
    """What may be at fault when some of these loops, all of `plane`, fail."""
    columns: dict[tuple[Component, str | None], F64] = {}

    def passed(number: int, kind: Kind, name: str, toward: str | None = None) -> None:
        key = Component(kind, name, plane), toward
        columns.setdefault(key, np.zeros(len(loops)))[number] += 1

    for number, loop in enumerate(loops):
        *switches, host = nodes_passed(loop.usids)
        passed(number, Kind.PLANE, f"plane:{plane}")
        passed(number, Kind.HOST_PORT, f"{host}-{switches[0]}")
        for node in switches:
            passed(number, _kind_of(node), node)
        for near, far in pairwise(switches):
            name = Link.between(near, far).name
            passed(number, Kind.LINK, name)
            passed(number, Kind.LINK, name, far)
    return _without_equals(columns)


def _kind_of(switch: str) -> Kind:
    return _SWITCHES[parse_switch(switch)[1]]


def _without_equals(columns: dict[tuple[Component, str | None], F64]) -> Suspects:
    preference = list(Kind)
    ordered = sorted(
        columns.items(), key=lambda item: (preference.index(item[0][0].kind), item[0][1] is not None, item[0][0].name)
    )
    chosen: dict[bytes, tuple[Component, str | None, F64]] = {}
    also: dict[bytes, list[str]] = {}
    for (component, toward), column in ordered:
        shape = (column / column.max()).tobytes()
        first = chosen.setdefault(shape, (component, toward, column))[0]
        others = also.setdefault(shape, [])
        if component.name != first.name and component.name not in others:
            others.append(component.name)
    listed = tuple(Suspect(component, toward, tuple(also[shape])) for shape, (component, toward, _) in chosen.items())
    passes = np.stack([column for _, _, column in chosen.values()], axis=1) if chosen else np.zeros((0, 0))
    return Suspects(listed, passes)
