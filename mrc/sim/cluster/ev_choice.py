# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs a QP gets: some of the ways to its peer, or all."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from mrc.errors import CallerError
from mrc.records import record


@record(frozen=True, slots=True)
class EvRequest:
    """One end of a QP asks: `near` and `far` are the hosts, by number. There are `planes`, and in each of them a way by
    each of `uplinks`. `wanted` of them are to be chosen: Policies.evs, or as many as there are where those are fewer.
    `random` follows from the seed."""

    near: int
    far: int
    planes: int
    uplinks: Sequence[int]
    wanted: int
    random: Random


class EvChoice(Protocol):
    """How EVs are chosen: a function, or an object that can be called. It may remember what it chose before."""

    def __call__(self, request: EvRequest, /) -> Sequence[tuple[int, int]]:
        """(plane, uplink) of each EV: as many as wanted or fewer, at least one, each once."""
        ...


def spread(request: EvRequest) -> list[tuple[int, int]]:
    """Evenly over planes and uplinks, from a random uplink on in each plane."""
    ways, count = [], len(request.uplinks)
    for plane in range(request.planes):
        own, start = _share(request, plane), request.random.randrange(count)
        ways += [(plane, request.uplinks[(start + each * count // own) % count]) for each in range(own)]
    return ways


def random(request: EvRequest) -> list[tuple[int, int]]:
    """Drawn without putting back."""
    drawn = request.random.sample(range(request.planes * len(request.uplinks)), request.wanted)
    return sorted((each % request.planes, request.uplinks[each // request.planes]) for each in drawn)


def first(request: EvRequest) -> list[tuple[int, int]]:
    """The lowest uplinks, evenly over planes."""
    return [
        (plane, uplink)
        for plane in range(request.planes)
        for uplink in request.uplinks[: _share(request, plane)]
    ]  # fmt: skip


def _share(request: EvRequest, plane: int) -> int:
    """How many EVs of a plane are even."""
    return request.wanted // request.planes + (plane < request.wanted % request.planes)


EV_CHOICES: dict[str, EvChoice] = {"spread": spread, "random": random, "first": first}


def chosen(choice: EvChoice, request: EvRequest) -> list[tuple[int, int]]:
    """What a choice gives. Raises CallerError where that is none of what may be chosen."""
    pair = f"hosts {request.near} and {request.far}"
    ways: list[tuple[int, int]] = []
    for way in choice(request):
        try:
            plane, uplink = way
        except (TypeError, ValueError):
            raise CallerError(f"EVs of {pair}: a way is (plane, uplink), got {way!r}") from None
        if plane not in range(request.planes) or uplink not in request.uplinks:
            raise CallerError(f"EVs of {pair}: there is no way by plane {plane} and uplink {uplink}")
        ways.append((int(plane), int(uplink)))
    if not 1 <= len(ways) <= request.wanted:
        raise CallerError(f"EVs of {pair}: 1 to {request.wanted} were to be chosen, got {len(ways)}")
    if len(set(ways)) < len(ways):
        raise CallerError(f"EVs of {pair}: a way was chosen twice")
    return ways
