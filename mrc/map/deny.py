"""Which EVs go over what is faulty, as a deny list that `mrc ctl ev deny --from FILE` takes (docs/control.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.clos import Clos, parse_switch
from mrc.map.components import Kind
from mrc.wire.usid import ev_of_path

# What `mrc ctl` takes at most.
MOST_ENTRIES = 65536


def deny_list(clos: Clos, faults: Iterable[Mapping[str, Any]], fabric: str, at_unix_ns: int) -> dict[str, Any]:
    """The list for these faults (`picture.fault_document`), for all hosts of the fabric.

    A cable that loses packets one way is denied to the data that goes that way alone. Raises CallerError beyond 65536
    entries.
    """
    listed = list(faults)
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    for fault in listed:
        rate = "is down" if fault["state"] == "down" else f"loses {fault['loss_percent']:.2g} %"
        for entry in _entries(clos, fault):
            # Two faults that one path meets are one entry.
            entries.setdefault(tuple(sorted(entry.items())), {**entry, "reason": f"{fault['name']} {rate}"})
    if len(entries) > MOST_ENTRIES:
        raise CallerError(f"{len(entries)} entries are more than a deny list holds: {MOST_ENTRIES}")
    names = [fault["name"] for fault in listed]
    return {"made_unix_ns": at_unix_ns, "fabric": fabric, "faults": names, "deny": list(entries.values())}


def _entries(clos: Clos, fault: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind, plane, name = Kind(fault["kind"]), int(fault["plane"]), str(fault["name"])
    if kind is Kind.PLANE:
        yield from _evs(plane, range(clos.spines))
    elif kind is Kind.SPINE:
        yield from _evs(plane, [parse_switch(name)[2]])
    elif kind is Kind.LEAF:
        hosts = _hosts_of(clos, parse_switch(name)[2])
        yield from (entry for host in hosts for entry in _to_and_from(plane, range(clos.spines), host))
    elif kind is Kind.HOST_PORT:
        yield from _to_and_from(plane, range(clos.spines), int(name.partition("-")[0][1:]))
    else:
        yield from _of_link(clos, plane, name, fault["toward"])


def _of_link(clos: Clos, plane: int, name: str, toward: list[str]) -> Iterator[dict[str, Any]]:
    lower, _, upper = name.partition("-")
    leaf, spine = parse_switch(lower)[2], parse_switch(upper)[2]
    inside = _hosts_of(clos, leaf)
    outside = [host for host in range(clos.host_count) if host not in inside]
    if upper in toward or not toward:
        # Hosts on one leaf reach each other without a spine.
        peers: list[int | None] = [None] if clos.hosts_per_leaf == 1 else list(outside)
        yield from (entry for host in inside for peer in peers for entry in _evs(plane, [spine], host, peer))
    if lower in toward or not toward:
        senders: list[int | None] = [None] if clos.hosts_per_leaf == 1 else list(outside)
        yield from (entry for host in senders for peer in inside for entry in _evs(plane, [spine], host, peer))


def _to_and_from(plane: int, spines: Iterable[int], host: int) -> Iterator[dict[str, Any]]:
    numbers = list(spines)
    yield from _evs(plane, numbers, host, None)
    yield from _evs(plane, numbers, None, host)


def _evs(
    plane: int, spines: Iterable[int], endpoint: int | None = None, peer: int | None = None
) -> Iterator[dict[str, Any]]:
    for spine in spines:
        ends = {"endpoint": endpoint, "peer": peer}
        named = {key: f"h{host}" for key, host in ends.items() if host is not None}
        yield {**named, "plane": plane, "ev": f"{ev_of_path(plane, spine):#010x}"}


def _hosts_of(clos: Clos, leaf: int) -> range:
    return range(leaf * clos.hosts_per_leaf, (leaf + 1) * clos.hosts_per_leaf)
