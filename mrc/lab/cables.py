# SPDX-License-Identifier: BSD-2-Clause
"""Breaking cables and mending them: which end is set down, what both get back, and cables that somebody took away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from mrc.fabric import Link
from mrc.lab import installed, messages
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.lab.plan import Interface, NodePlan
from mrc.lab.settled import wait_until_settled

Plans = Mapping[str, NodePlan]
Route = Callable[[str], NetlinkSocket]


def cut(links: Sequence[Link], plans: Plans, route: Route) -> tuple[int, int]:
    """Set the upper end of each down. (CLOCK_MONOTONIC nanoseconds just before the first, how long it took).

    `route` gives the route netlink socket of a node. Raises SystemRefused.
    """
    by_node: dict[str, list[Request]] = {}
    for link in links:
        end = plans[link.upper].interface(link)
        by_node.setdefault(link.upper, []).append(messages.link_state(end, up=False))
    sockets = {node: route(node) for node in by_node}
    cut_at_ns = time.monotonic_ns()
    for node, requests in by_node.items():
        sockets[node].transact(requests)
    return cut_at_ns, time.monotonic_ns() - cut_at_ns


def heal(links: Sequence[Link], plans: Plans, route: Route) -> tuple[int, int]:
    """Set both ends up, with all that a link-down flushes. (CLOCK_MONOTONIC nanoseconds when all carry packets again,
    how long it took). Raises SystemRefused."""
    up: dict[str, list[Request]] = {}
    configuration: dict[str, list[Request]] = {}
    ends: dict[str, list[Interface]] = {}
    for link in links:
        for node in (link.lower, link.upper):
            end = plans[node].interface(link)
            ends.setdefault(node, []).append(end)
            up.setdefault(node, []).append(messages.link_state(end, up=True))
            configuration.setdefault(node, []).extend(messages.interface_configuration(end))
    sockets = {node: route(node) for node in ends}
    began_at_ns = time.monotonic_ns()
    for requests_of in (up, configuration):
        for node, requests in requests_of.items():
            sockets[node].transact(requests)
    for node, interfaces in ends.items():
        wait_until_settled(sockets[node], node, interfaces)
    healed_at_ns = time.monotonic_ns()
    return healed_at_ns, healed_at_ns - began_at_ns


def taken_away(links: Sequence[Link], plans: Plans, route: Route) -> list[Link]:
    """Those of these links of which an end is not there, or is another interface of its name. Raises SystemRefused."""
    there = {
        node: installed.interfaces(route(node), node)
        for node in dict.fromkeys(end for link in links for end in link.ends)
    }
    return [link for link in links if any(plans[node].interface(link).index not in there[node] for node in link.ends)]


def lay_again(links: Sequence[Link], plans: Plans, route: Route, namespace: Callable[[str], int], mtu: int) -> None:
    """Lay these cables as the lab's builder did, in place of whatever bears their ends' names. They are down then.

    `namespace` opens that of a node. Raises SystemRefused.
    """
    for link in links:
        for node in link.ends:
            name = plans[node].interface(link).name
            found = installed.interfaces(route(node), node)
            route(node).transact([messages.delete_link(at, name) for at, each in found.items() if each.name == name])
        descriptor = namespace(link.upper)
        try:
            ends = plans[link.lower].interface(link), plans[link.upper].interface(link)
            route(link.lower).transact([messages.veth_pair(*ends, descriptor, mtu)])
        finally:
            os.close(descriptor)
