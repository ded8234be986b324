"""The plan of a whole fabric, and the parts of it a target names."""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.fabric import Clos, Fabric, FabricPort, Link
from mrc.fabric.address import address
from mrc.fabric.clos import leaf_name, parse_switch, spine_name
from mrc.lab.plan.addresses import interface_name
from mrc.lab.plan.forwarding import LEAF, STEV_WIDTHS, PlainForwarding, forwarding_of
from mrc.lab.plan.nodes import Interface, NodePlan, Route

# What a host's endpoint calls the way the fabric reads its EVs (`mrc.fabric.host_view.MODES`).
_ENDPOINT_MODES = {"srv6": "srv6", "srv6-srh": "srv6-srh", "stev": "stev", "ecmp": "udp"}


def plan(topology: Clos) -> dict[str, NodePlan]:
    """The plan of every node, by name, hosts first. Raises CallerError beyond 65,536 links."""
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
    for name in topology.leaf_switches + topology.spine_switches:
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
    return plans


def _with_configuration(forwarding: PlainForwarding, link: Link, end: Interface) -> Interface:
    addresses: tuple[str, ...] = ()
    plane, tier, number = parse_switch(link.upper)
    if tier == LEAF:
        host = int(link.lower[1:])
        if end.upper:
            routes = forwarding.leaf_down(plane, host, end)
        else:
            addresses = (address(link.lower, plane),)
            routes = forwarding.host_up(plane, host, end)
    elif end.upper:
        routes = forwarding.spine_down(plane, parse_switch(link.lower)[2], end)
    else:
        routes = forwarding.leaf_up(plane, number, end)
    near, far = link.ends[::-1] if end.upper else link.ends
    to_neighbour = forwarding.to_neighbour(plane, far, end) if near[0] == "p" else ()
    found: tuple[Route, ...] = (*to_neighbour, *routes)
    return Interface(end.node, end.name, end.number, end.upper, addresses, found)


def host_fabric(topology: Clos, host: int, name: str) -> Fabric:
    """What host `host` must know of the lab `name`: the document behind MRC_FABRIC."""
    ports = tuple(
        FabricPort(plane, f"p{plane}", address(f"h{host}", plane), topology.leaf_of_host(host), topology.spines)
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
    )


def links_of_target(topology: Clos, target: str) -> tuple[Link, ...]:
    """The links a target names: one link (`p0l0-p0s1`), every link of a node (`p0s1`, `h0`), of a plane (`plane:0`).

    Raises CallerError when it names nothing.
    """
    if target.startswith("plane:"):
        number = target.removeprefix("plane:")
        if not number.isdecimal() or int(number) >= topology.planes:
            raise CallerError(f"no {target!r}: planes are plane:0 to plane:{topology.planes - 1}")
        plane = int(number)
        switches = {leaf_name(plane, leaf) for leaf in range(topology.leaves)}
        switches |= {spine_name(plane, spine) for spine in range(topology.spines)}
        return tuple(link for link in topology.links if link.upper in switches)
    if "-" in target:
        return (topology.link(target),)
    return topology.links_of(target)
