# SPDX-License-Identifier: BSD-2-Clause
"""Parts of a fabric that paths have in common, and the smallest that explains where packets were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mrc.capture.analysis.figures import AnyPath, PathFigures


class Part(NamedTuple):
    """A switch or a plane: its name, and the EVs of the paths through it."""

    name: str
    evs: frozenset[int]

    def split(self, paths: list[PathFigures], lost: dict[int, int]) -> tuple[int, int, int, int]:
        """Packets lost here and sent here, then those of all other paths."""
        here = [path for path in paths if path.ev in self.evs]
        others = [path for path in paths if path.ev not in self.evs]
        return (
            sum(lost.get(path.ev, 0) for path in here),
            sum(path.packets for path in here),
            sum(lost.get(path.ev, 0) for path in others),
            sum(path.packets for path in others),
        )


def parts(paths: Sequence[AnyPath]) -> list[Part]:
    """Every switch and plane that some but not all of the paths take, smallest first. A switch with the same paths as a
    plane cannot be told from it, and is left out."""
    used = [path for path in paths if path.packets]
    of_plane: dict[str, set[int]] = {}
    of_switch: dict[str, set[int]] = {}
    for path in used:
        if path.plane is not None:
            of_plane.setdefault(f"plane {path.plane}", set()).add(path.ev)
        # The last uSID is the destination host's own: no switch.
        for switch in path.route.split(">")[:-1] if ">" in path.route else []:
            of_switch.setdefault(f"switch {switch}", set()).add(path.ev)
    found = {frozenset(evs): Part(name, frozenset(evs)) for name, evs in of_switch.items()}
    found |= {frozenset(evs): Part(name, frozenset(evs)) for name, evs in of_plane.items()}
    return sorted((part for part in found.values() if 1 < len(part.evs) < len(used)), key=lambda part: len(part.evs))


def smallest(paths: Sequence[AnyPath], lost: dict[int, int]) -> Part | None:
    """The smallest part through which every packet went that was lost, by EV; None where there is none."""
    hit = frozenset(ev for ev, count in lost.items() if count)
    return next((part for part in parts(paths) if hit and hit <= part.evs), None)


def exactly(paths: Sequence[AnyPath], evs: set[int]) -> Part | None:
    """The switch or plane of which these are all the paths."""
    return next((part for part in parts(paths) if part.evs == evs), None)


def where(paths: list[PathFigures], lost: dict[int, int], named: str) -> str:
    """In words: on which paths these packets were lost. `named` is the path when it is just one."""
    hit, used = [ev for ev, count in lost.items() if count], [path for path in paths if path.packets]
    if len(used) < 2:
        return "on its path"
    if len(hit) == 1:
        return f"all on path {named}"
    part = smallest(paths, lost)
    if part is not None:
        return f"all on {part.name}"
    if len(hit) == len(used):
        return "on all paths alike"
    return f"on {len(hit)} of {len(used)} paths"
