# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs go over what is faulty, as a deny list that `mrc ctl ev deny --from FILE` takes (docs/control.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.names import host_name, parse_host, parse_switch
from mrc.fabric.shape import Shape
from mrc.map.components import Kind
from mrc.wire.usid import ev_of_path

# What `mrc ctl` takes at most.
MOST_ENTRIES = 65536


def deny_list(shape: Shape, faults: Iterable[Mapping[str, Any]], fabric: str, at_unix_ns: int) -> dict[str, Any]:
    """The list for these faults (`picture.fault_document`), for all hosts of the fabric.

    A cable that loses packets one way is denied to the data that goes that way alone. Raises CallerError beyond 65536
    entries.
    """
    listed = list(faults)
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    for fault in listed:
        rate = "is down" if fault["state"] == "down" else f"loses {fault['loss_percent']:.2g} %"
        for entry in _entries(shape, fault):
            # Two faults that one path meets are one entry.
            entries.setdefault(tuple(sorted(entry.items())), {**entry, "reason": f"{fault['name']} {rate}"})
    if len(entries) > MOST_ENTRIES:
        raise CallerError(f"{len(entries)} entries are more than a deny list holds: {MOST_ENTRIES}")
    names = [fault["name"] for fault in listed]
    return {"made_unix_ns": at_unix_ns, "fabric": fabric, "faults": names, "deny": list(entries.values())}


def _entries(shape: Shape, fault: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind, plane, name = Kind(fault["kind"]), int(fault["plane"]), str(fault["name"])
    every = range(shape.uplinks)
    if kind is Kind.PLANE:
        yield from _evs(plane, every)
        return
    if kind is Kind.HOST_PORT:
        yield from _to_and_from(plane, every, parse_host(name.partition("-")[0]))
        return
    if kind is Kind.LEAF:
        for inside in shape.hosts_of_leaf(parse_switch(name)[2]):
            yield from _to_and_from(plane, every, inside)
    toward = list(fault["toward"])
    for leaf, far, uplink in shape.ways_over(name, toward[0] if len(toward) == 1 else None):
        for host, peer in _ends(shape, leaf, far):
            yield from _evs(plane, [uplink], host, peer)


def _ends(shape: Shape, leaf: int | None, far: int | None) -> Iterator[tuple[int | None, int | None]]:
    """The hosts between which packets go from one leaf to another. None: any leaf, and any host."""
    if leaf is None and far is None:
        yield None, None
        return
    alone = shape.hosts_per_leaf == 1
    for host in _hosts(shape, leaf, far, any_host=alone):
        for peer in _hosts(shape, far, leaf, any_host=alone):
            yield host, peer


def _hosts(shape: Shape, leaf: int | None, other: int | None, *, any_host: bool) -> Iterable[int | None]:
    """The hosts of a leaf; without one those of all leaves but the `other`."""
    if leaf is not None:
        return shape.hosts_of_leaf(leaf)
    # Hosts on one leaf reach each other without the part. Where none has company there, no host need be named.
    return [None] if any_host else [host for host in range(shape.host_count) if shape.leaf_of_host(host) != other]


def _to_and_from(plane: int, uplinks: Iterable[int], host: int | None) -> Iterator[dict[str, Any]]:
    numbers = list(uplinks)
    yield from _evs(plane, numbers, host, None)
    yield from _evs(plane, numbers, None, host)


def _evs(
    plane: int, uplinks: Iterable[int], endpoint: int | None = None, peer: int | None = None
) -> Iterator[dict[str, Any]]:
    for uplink in uplinks:
        ends = {"endpoint": endpoint, "peer": peer}
        named = {key: host_name(host) for key, host in ends.items() if host is not None}
        yield {**named, "plane": plane, "ev": f"{ev_of_path(plane, uplink):#010x}"}
