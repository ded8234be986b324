# SPDX-License-Identifier: BSD-2-Clause
"""Whether a lab that is up still is what it was built as, and what to do where it is not.

Compared are: namespaces and whose they are, ports and their state, addresses, neighbours, routes, rules,
and the impairments of the lab's description. What is there beyond the plan does not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from mrc.errors import SystemRefused
from mrc.fabric import Description, Impairment, Shape, link_keys
from mrc.lab import fast, impairment, installed, messages
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import LOOPBACK_INDEX, USID_DEVICE_INDEX, NodePlan


class Remedy(Enum):
    """What puts a difference right."""

    REBUILD = "down, then up"
    HEAL = "heal"
    IMPAIR = "impair"


@dataclass(frozen=True, slots=True)
class Difference:
    """`where` is a node or link, `what` the rest of a sentence about it; `arguments` those of the remedy."""

    where: str
    what: str
    remedy: Remedy
    arguments: tuple[str, ...] = ()


def commands(name: str, differences: Sequence[Difference]) -> list[str]:
    """The commands that make lab `name` what it was built as, in order."""
    if any(each.remedy is Remedy.REBUILD for each in differences):
        return [f"mrc lab down --name {name}"]
    cut = [each.where for each in differences if each.remedy is Remedy.HEAL]
    healing = [f"mrc lab heal --name {name} {' '.join(cut)}"] if cut else []
    impaired = [each.arguments for each in differences if each.remedy is Remedy.IMPAIR]
    return healing + [f"mrc lab impair --name {name} {' '.join(arguments)}" for arguments in impaired]


def of_nodes(
    topology: Shape, plans: Mapping[str, NodePlan], tag: str, open_namespace: Callable[[str], int]
) -> Iterator[Difference]:
    """What differs in namespaces and on cables, each node and cable once.

    `tag` is on the `lo` of each namespace of the lab; `open_namespace` raises SystemRefused for one that is gone.
    """
    cables = {(node, plans[node].interface(link).index): link.name for link in topology.links for node in link.ends}
    reported: set[str] = set()
    lost: set[str] = set()
    of_cables: list[tuple[str, Difference]] = []
    for node, planned in plans.items():
        found = _of_node(planned, tag, open_namespace)
        if found is None:
            lost.add(node)
            yield Difference(node, "its namespace is gone, or another has its name", Remedy.REBUILD)
            continue
        for index, what, remedy in found:
            if index is None:
                yield Difference(node, what, remedy)
            else:
                cable = cables[node, index]
                of_cables.append((cable, Difference(cable, what, remedy)))
    for cable, difference in of_cables:
        # Where an end is gone the cable is, too: that has been said.
        if cable not in reported and not lost & set(cable.split("-")):
            reported.add(cable)
            yield difference


_Found = tuple[int | None, str, Remedy]


def _of_node(planned: NodePlan, tag: str, open_namespace: Callable[[str], int]) -> list[_Found] | None:
    """(interface index or None for the node, what, remedy) of each difference; None when the namespace is gone."""
    try:
        descriptor = open_namespace(planned.name)
    except SystemRefused:
        return None
    try:
        netlink = NetlinkSocket.inside(descriptor)
    finally:
        os.close(descriptor)
    try:
        interfaces = installed.interfaces(netlink, planned.name)
        if LOOPBACK_INDEX not in interfaces or interfaces[LOOPBACK_INDEX].alias != tag:
            return None
        return list(_compared(planned, interfaces, installed.read(netlink, planned.name)))
    finally:
        netlink.close()


def _compared(
    planned: NodePlan, interfaces: Mapping[int, installed.InterfaceFound], there: set[installed.Key]
) -> Iterator[_Found]:
    for index, name in ((LOOPBACK_INDEX, "lo"), (USID_DEVICE_INDEX, "usid0")):
        wanted = index == LOOPBACK_INDEX or planned.needs_usid_device
        if wanted and (index not in interfaces or not interfaces[index].up):
            yield None, f"{name} is down or gone", Remedy.REBUILD
    lacking = installed.missing(messages.own_configuration(planned), there)
    if lacking:
        yield None, _lacks(lacking), Remedy.REBUILD
    for end in planned.interfaces:
        found = interfaces.get(end.index)
        if found is None:
            yield end.index, f"its end at {planned.name} is gone", Remedy.HEAL
        elif not found.running:
            yield end.index, "is down", Remedy.HEAL
        elif lacking := installed.missing(messages.interface_configuration(end), there):
            yield end.index, f"{planned.name} {_lacks(lacking)}", Remedy.HEAL


def _lacks(what: Sequence[str]) -> str:
    more = f" and {len(what) - 1} more" if what[1:] else ""
    return f"lacks {what[0].removeprefix('add the ')}{more}"


def of_programs(plans: Mapping[str, NodePlan], route: Callable[[str], NetlinkSocket]) -> Iterator[Difference]:
    """Which ports of a fast fabric have no program any more; `plans` has only nodes that are there."""
    for planned in plans.values():
        if planned.is_switch:
            there = installed.interfaces(route(planned.name), planned.name)
            ends = [end for end in planned.interfaces if end.index in there]  # `of_nodes` tells of the others
            without = [end.name for end in ends if not fast.is_installed(route(planned.name), end)]
            if without:
                what = f"has no program of a fast fabric at {', '.join(without)}"
                yield Difference(planned.name, what, Remedy.REBUILD)


def of_impairments(
    description: Description,
    plans: Mapping[str, NodePlan],
    route: Callable[[str], NetlinkSocket],
    filters: Callable[[str], NetlinkSocket],
) -> Iterator[Difference]:
    """What differs in the impairments of links whose both ends are there: `plans` has only nodes that are.

    `route` and `filters` give a node's route and netfilter netlink socket. Raises SystemRefused.
    """
    sending = {node: impairment.sending_ends(route(node)) for node in plans}
    losses = {node: _losses(filters(node)) for node in plans}
    interfaces = {node: installed.interfaces(route(node), node) for node in plans}
    for link in description.shape.links:
        for sender, receiver in ((link.lower, link.upper), (link.upper, link.lower)):
            if sender not in plans or receiver not in plans:
                continue
            wanted = description.impairments.get((link.name, receiver), Impairment())
            found = Impairment(loss=losses[receiver].get(plans[receiver].interface(link).name, 0.0))
            there = sending[sender].get(plans[sender].interface(link).index)
            if there is not None:
                found = replace(impairment.figures(there).impairment, loss=found.loss)
            port = interfaces[sender].get(plans[sender].interface(link).index)
            number = plans[sender].interface(link).index
            delayed = impairment.delays(interfaces[sender], sending[sender]).get(number, impairment.NO_DELAY)
            found = replace(found, **delayed.settings)
            if port is not None and port.mtu != description.shape.mtu:
                found = replace(found, mtu_bytes=port.mtu)
            differing = [f"{key} {now}, not {then}" for key, now, then in link_keys.differing(found, wanted)]
            if differing:
                what = f"has {', '.join(differing)}, toward {receiver}"
                options = (link.name, "--toward", receiver, *link_keys.options(found, wanted))
                yield Difference(link.name, what, Remedy.IMPAIR, options)


def _losses(filters: NetlinkSocket) -> dict[str, float]:
    """What is lost of all that arrives, by interface."""
    try:
        return {each.interface: each.share for each in impairment.losses(filters)}
    except SystemRefused:
        # Without nftables in the kernel nothing can be lost.
        return {}
