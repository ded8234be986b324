# SPDX-License-Identifier: BSD-2-Clause
"""Where packets go: the next hop of each uSID at each node, and the nodes that a list of uSIDs passes.

Both follow from the links and the addresses of their ends alone: a uSID names the neighbour that has it.
"""

from __future__ import annotations

from collections.abc import Iterable

from mrc.errors import CallerError
from mrc.fabric.address import node_of_usid, usid
from mrc.fabric.names import Link


def next_hops(links: Iterable[Link]) -> dict[str, dict[int, tuple[Link, str]]]:
    """By node, then by uSID: the link to the neighbour that the uSID names, and the neighbour."""
    found: dict[str, dict[int, tuple[Link, str]]] = {}
    for link in links:
        for near, far in (link.ends, link.ends[::-1]):
            found.setdefault(near, {})[usid(far, link.plane)] = link, far
    return found


def nodes_passed(usids: Iterable[int]) -> tuple[str, ...]:
    """The nodes that a packet with these uSIDs passes, in order. Raises CallerError for a uSID that names none."""
    nodes = []
    for value in usids:
        named = node_of_usid(value)
        if named is None:
            raise CallerError(f"uSID {value:#06x} names no node")
        nodes.append(named[1])
    return tuple(nodes)
