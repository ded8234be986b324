# SPDX-License-Identifier: BSD-2-Clause
"""Names of links, switches and planes in a cluster's topology, and the numbers that stand for them.

Hosts are h0, h1, ...; leaves p0l0 (plane 0, leaf 0); spines p0s0, in three tiers counted from pod to pod; core switches
p0c0, counted from group to group. A link is named by its two ends, lower end first: h3-p0l0, p0l0-p0s1, p0s1-p0c4.
"""

from __future__ import annotations

import re

import numpy as np

from mrc.errors import CallerError
from mrc.sim.cluster import Target, Topology
from mrc.sim.cluster.setup import Ints

_HOST = re.compile(r"h([0-9]{1,7})")
_SWITCH = re.compile(r"p([0-9]{1,2})([lsc])([0-9]{1,7})")
_PLANE = re.compile(r"plane:([0-9]{1,2})")
_SOME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(%?) *(host-links|fabric-links|leaves|spines|cores|planes)")
CLASSES = ("host-links", "fabric-links", "leaves", "spines", "cores", "planes")

Hit = tuple[Target, int]


def targets(topology: Topology, text: str, random: np.random.Generator) -> list[Hit]:
    """What a target names: `p0l0-p0s1, p0s2`, `plane:0`, `4 fabric-links`, `1% host-links`. Raises CallerError."""
    found: list[Hit] = []
    for name in map(str.strip, text.split(",")):
        found += _some(topology, name, random) if _SOME.fullmatch(name) else [_one(topology, name)]
    return list(dict.fromkeys(found))


def members(topology: Topology, kind: str) -> tuple[Target, range]:
    """All of a class: how they are hit, and their numbers."""
    leaves, spines = topology.leaf_switches, topology.spine_switches
    return {
        "host-links": (Target.CABLE, range(topology.host_cables)),
        "fabric-links": (Target.CABLE, range(topology.host_cables, topology.cables)),
        "leaves": (Target.SWITCH, range(leaves)),
        "spines": (Target.SWITCH, range(leaves, leaves + spines)),
        "cores": (Target.SWITCH, range(leaves + spines, topology.switches)),
        "planes": (Target.PLANE, range(topology.planes)),
    }[kind]


def _some(topology: Topology, text: str, random: np.random.Generator) -> list[Hit]:
    match = _SOME.fullmatch(text)
    assert match is not None
    target, numbers = members(topology, match[3])
    count = float(match[1])
    if match[2]:
        if count > 100:
            raise CallerError(f"{text}: at most 100%")
        count = max(1, round(len(numbers) * count / 100)) if count else 0
    if count != int(count) or count > len(numbers):
        raise CallerError(f"{text}: there are {len(numbers)}")
    chosen = np.sort(random.choice(len(numbers), int(count), replace=False))
    return [(target, numbers[int(each)]) for each in chosen]


def _one(topology: Topology, name: str) -> Hit:
    if match := _PLANE.fullmatch(name):
        _below(name, int(match[1]), topology.planes, "planes", "plane:")
        return Target.PLANE, int(match[1])
    if "-" in name:
        lower, _, upper = name.partition("-")
        return Target.CABLE, _cable(topology, name, lower, upper)
    plane, kind, number = _switch(topology, name)
    if kind == "l":
        return Target.SWITCH, topology.leaf_switch(plane, number)
    if kind == "s":
        pod, spine = divmod(number, topology.spines)
        return Target.SWITCH, topology.spine_switch(plane, spine, pod)
    spine, core = divmod(number, topology.cores_per_spine)
    return Target.SWITCH, topology.core_switch(plane, spine, core)


def _cable(topology: Topology, name: str, lower: str, upper: str) -> int:
    plane, kind, number = _switch(topology, upper)
    if match := _HOST.fullmatch(lower):
        host = int(match[1])
        _below(lower, host, topology.hosts, "hosts", "h")
        leaf = host // topology.hosts_per_leaf
        if (kind, number) != ("l", leaf):
            raise CallerError(f"no link {name}: {lower} is on p{plane}l{leaf}")
        return topology.host_cable(plane, host)
    below = _switch(topology, lower)
    if below[0] != plane:
        raise CallerError(f"no link {name}: its ends are in different planes")
    if (below[1], kind) == ("l", "s"):
        pod, spine = divmod(number, topology.spines)
        if topology.tiers == 3 and below[2] // topology.leaves_per_pod != pod:
            raise CallerError(f"no link {name}: {lower} is in pod {below[2] // topology.leaves_per_pod}, not {pod}")
        return topology.leaf_cable(plane, below[2], spine)
    if (below[1], kind) == ("s", "c"):
        pod, spine = divmod(below[2], topology.spines)
        group, core = divmod(number, topology.cores_per_spine)
        if group != spine:
            raise CallerError(f"no link {name}: {lower} has links to cores of group {spine}, {upper} is of {group}")
        return topology.core_cable(plane, pod, spine, core)
    raise CallerError(f"no link {name}: links are h0-p0l0, p0l0-p0s0 and so on, lower end first")


def _switch(topology: Topology, name: str) -> tuple[int, str, int]:
    match = _SWITCH.fullmatch(name)
    if match is None:
        raise CallerError(f"no {name!r} here: links are h0-p0l0 or p0l0-p0s1, switches p0s1, planes plane:0")
    plane, kind, number = int(match[1]), match[2], int(match[3])
    _below(name, plane, topology.planes, "planes", "p")
    counts = {
        "l": topology.leaves,
        "s": topology.spines * topology.pods,
        "c": topology.core_switches // topology.planes,
    }
    words = {"l": "leaves", "s": "spines", "c": "core switches"}
    _below(name, number, counts[kind], words[kind], f"p{plane}{kind}")
    return plane, kind, number


def _below(name: str, number: int, count: int, words: str, prefix: str) -> None:
    if number >= count:
        there = f"{words} are {prefix}0 to {prefix}{count - 1}" if count else f"there are no {words}"
        raise CallerError(f"no {name}: {there}")


def cable_names(topology: Topology) -> list[str]:
    """The names of all cables, by their numbers."""
    found = [""] * topology.cables
    for plane in range(topology.planes):
        for host in range(topology.hosts):
            found[topology.host_cable(plane, host)] = f"h{host}-p{plane}l{host // topology.hosts_per_leaf}"
        for leaf in range(topology.leaves):
            pod = leaf // topology.leaves_per_pod if topology.tiers == 3 else 0
            for spine in range(topology.spines):
                number = pod * topology.spines + spine
                found[topology.leaf_cable(plane, leaf, spine)] = f"p{plane}l{leaf}-p{plane}s{number}"
        for number in range(topology.pods * topology.spines if topology.tiers == 3 else 0):
            pod, spine = divmod(number, topology.spines)
            for core in range(topology.cores_per_spine):
                upper = f"p{plane}c{spine * topology.cores_per_spine + core}"
                found[topology.core_cable(plane, pod, spine, core)] = f"p{plane}s{number}-{upper}"
    return found


def planes_of_cables(topology: Topology) -> Ints:
    """The plane of each cable, by its number."""
    found = np.zeros(topology.cables, np.int64)
    hosts, leaves, spines = (
        np.arange(count, dtype=np.int64) for count in (topology.hosts, topology.leaves, topology.spines)
    )
    for plane in range(topology.planes):
        found[topology.host_cable(plane, hosts)] = plane  # type: ignore[arg-type]
        for spine in spines.tolist():
            found[topology.leaf_cable(plane, leaves, spine)] = plane  # type: ignore[arg-type]
            for pod in range(topology.pods if topology.tiers == 3 else 0):
                first = topology.core_cable(plane, pod, spine, 0)
                found[first : first + topology.cores_per_spine] = plane
    return found


def cables_of(topology: Topology, hit: Hit) -> list[int]:
    """The cables that a hit takes along: a switch's, a plane's, or the one."""
    target, which = hit
    if target not in (Target.SWITCH, Target.PLANE):
        return [which]
    if target == Target.PLANE:
        return [int(cable) for cable in np.flatnonzero(planes_of_cables(topology) == which)]
    name = _switch_name(topology, which)
    return [cable for cable, ends in enumerate(cable_names(topology)) if name in ends.split("-")]


def _switch_name(topology: Topology, number: int) -> str:
    for kind, count in (
        ("l", topology.leaf_switches),
        ("s", topology.spine_switches),
        ("c", topology.core_switches),
    ):
        if number < count:
            per_plane = count // topology.planes
            return f"p{number // per_plane}{kind}{number % per_plane}"
        number -= count
    raise CallerError(f"no switch {number}")
