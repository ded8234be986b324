# SPDX-License-Identifier: BSD-2-Clause
"""The plan of a whole fabric, and what each host must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from mrc.errors import CallerError
from mrc.fabric import Fabric, FabricPort, Link, Shape
from mrc.fabric.address import address
from mrc.fabric.names import parse_host, parse_switch
from mrc.lab.plan.addresses import interface_name
from mrc.lab.plan.forwarding import STEV_WIDTHS, PlainForwarding, forwarding_of
from mrc.lab.plan.nodes import Interface, NodePlan, Route

# What a host's endpoint calls the way the fabric reads its EVs (`mrc.fabric.host_view.MODES`).
_ENDPOINT_MODES = {"srv6": "srv6", "srv6-srh": "srv6-srh", "stev": "stev", "ecmp": "udp"}


@lru_cache(maxsize=2)
def plan(topology: Shape) -> Mapping[str, NodePlan]:
    """The plan of every node, by name, hosts first. Raises CallerError beyond 65,536 links.

    Who builds a lab opens it next, and asks for the same again.
    """
    if len(topology.links) > 1 << 16:
        raise CallerError(f"{len(topology.links)} links are more than the lab's address plan can number: at most 65536")
    forwarding = forwarding_of(topology)
    interfaces: dict[str, list[Interface]] = {node: [] for node in topology.nodes}
    for number, link in enumerate(topology.links):
        for node, upper in ((link.lower, False), (link.upper, True)):
            bare = Interface(node, interface_name(link, node), number, upper)
            interfaces[node].append(_with_configuration(forwarding, link, bare))
    plans: dict[str, NodePlan] = {}
    on_hosts, on_switches = forwarding.settings(is_switch=False), forwarding.settings(is_switch=True)
    for host, name in enumerate(topology.hosts):
        own = tuple(forwarding.host(host))
        plans[name] = NodePlan(name, False, (), own, tuple(interfaces[name]), on_hosts)
    for name in topology.switches:
        plane, tier, number = parse_switch(name)
        plans[name] = NodePlan(
            name,
            True,
            (address(name, plane),),
            tuple(forwarding.switch(plane, tier, number)),
            tuple(interfaces[name]),
            on_switches,
            tuple(forwarding.rules(tier)),
            forwarding.marking(tier),
        )
    return MappingProxyType(plans)


def _with_configuration(forwarding: PlainForwarding, link: Link, end: Interface) -> Interface:
    addresses: tuple[str, ...] = ()
    plane, host = link.plane, parse_host(link.lower)
    near, far = link.ends[::-1] if end.upper else link.ends
    if host is None:
        routes = forwarding.between(plane, near, far, end)
    elif end.upper:
        routes = forwarding.leaf_down(plane, host, end)
    else:
        addresses = (address(link.lower, plane),)
        routes = forwarding.host_up(plane, host, end)
    to_neighbour = forwarding.to_neighbour(plane, far, end) if parse_host(near) is None else ()
    found: tuple[Route, ...] = (*to_neighbour, *routes)
    return Interface(end.node, end.name, end.number, end.upper, addresses, found)


def host_fabric(topology: Shape, host: int, name: str) -> Fabric:
    """What host `host` must know of the lab `name`: the document behind MRC_FABRIC."""
    ports = tuple(
        FabricPort(plane, f"p{plane}", address(f"h{host}", plane), topology.leaf_of_host(host), topology.uplinks)
        for plane in range(topology.planes)
    )
    return Fabric(
        name=name,
        host=host,
        mtu=topology.mtu,
        ports=ports,
        mode=_ENDPOINT_MODES[topology.mode],
        block=topology.block,
        ev_widths=STEV_WIDTHS if topology.mode == "stev" else (),
        shape=topology.kind,
        leaves=topology.leaves,
    )
