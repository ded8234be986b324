# SPDX-License-Identifier: BSD-2-Clause
"""A fabric as a topology of containerlab: Linux containers that forward as the lab's namespaces do.

Every address, route and rule of the plan becomes a command that a container runs once its links are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mrc.errors import CallerError
from mrc.fabric import Impairment, Shape
from mrc.fabric.description import Direction
from mrc.lab.plan import (
    LOOPBACK_INDEX,
    USID_DEVICE,
    USID_DEVICE_INDEX,
    Interface,
    NodePlan,
    Route,
    RouteKind,
    Rule,
    host_fabric,
    plan,
)

DEFAULT_IMAGE = "ghcr.io/srl-labs/network-multitool"
_FABRIC_PATH = "/etc/mrc-fabric.json"
_LOCAL_TABLE = 255


def files(
    shape: Shape, name: str, image: str = DEFAULT_IMAGE, impairments: Mapping[Direction, Impairment] | None = None
) -> dict[str, str]:
    """By name, the files that `containerlab deploy` needs: the topology, and what each host must know of its fabric.

    Of `impairments`, by link name and the end travelled toward, the MTU alone becomes part of the topology.
    Raises CallerError for a mode whose switches need more than addresses, routes and rules.
    """
    plans = plan(shape)
    if any(node.marking is not None for node in plans.values()):
        raise CallerError(
            f"mode {shape.mode} marks packets through nftables, which this file has no words for: choose srv6"
        )
    mtus: dict[str, list[str]] = {node: [] for node in plans}
    for link in shape.links:
        for sender, receiver in (link.ends, link.ends[::-1]):
            mtu = (impairments or {}).get((link.name, receiver), Impairment()).mtu_bytes
            if mtu:
                mtus[sender].append(f"ip link set dev {plans[sender].interface(link).name} mtu {mtu}")
    topology = {
        "name": name,
        "topology": {
            "defaults": {"kind": "linux", "image": image},
            "nodes": {node.name: _node(node, mtus[node.name]) for node in plans.values()},
            "links": [
                {
                    "endpoints": [f"{end}:{plans[end].interface(link).name}" for end in link.ends],
                    "mtu": shape.mtu,
                }
                for link in shape.links
            ],
        },
    }
    fabrics = {f"{host}.json": host_fabric(shape, number, name).to_json() for number, host in enumerate(shape.hosts)}
    return {f"{name}.clab.yml": yaml.safe_dump(topology, sort_keys=False, width=160), **fabrics}


def _node(node: NodePlan, last: list[str]) -> dict[str, Any]:
    described: dict[str, Any] = {
        # "conf/all" of IPv6 has dots in no name here, so a slash is a dot.
        "sysctls": {f"net.{setting.replace('/', '.')}": int(value) for setting, value in node.settings},
        "exec": [*_commands(node), *last],
    }
    if not node.is_switch:
        described["env"] = {"MRC_FABRIC": _FABRIC_PATH}
        described["binds"] = [f"{node.name}.json:{_FABRIC_PATH}:ro"]
    return described


def _commands(node: NodePlan) -> Iterator[str]:
    devices = {LOOPBACK_INDEX: "lo", USID_DEVICE_INDEX: USID_DEVICE, **{end.index: end.name for end in node.interfaces}}
    if node.needs_usid_device:
        yield f"ip link add {USID_DEVICE} type bridge"
        yield f"ip link set {USID_DEVICE} up"
    for text in node.loopback_addresses:
        yield f"ip -6 addr add {text}/128 dev lo nodad"
    for route in node.routes:
        yield _route(route, devices)
    for rule in node.rules:
        yield _rule(rule)
    for end in node.interfaces:
        yield from _interface(end, devices)


def _interface(end: Interface, devices: dict[int, str]) -> Iterator[str]:
    yield f"ip link set dev {end.name} address {end.mac}"
    yield f"ip link set dev {end.name} up"
    yield f"ip -6 addr add {end.link_local}/64 dev {end.name} nodad"
    for text in end.addresses:
        yield f"ip -6 addr add {text}/128 dev {end.name} nodad"
    yield f"ip -6 neigh replace {end.peer_link_local} lladdr {end.peer_mac} dev {end.name} nud permanent"
    for route in end.routes:
        yield _route(route, devices)


def _route(route: Route, devices: dict[int, str]) -> str:
    words = ["ip -6 route", "append" if route.one_of_many else "replace"]
    if route.kind in (RouteKind.LOCAL, RouteKind.BLACKHOLE):
        words.append(route.kind.value)
    words.append(route.prefix)
    if route.kind is RouteKind.USID:
        words.append("encap seg6local action End flavors next-csid")
    if route.gateway is not None:
        words.append(f"via {route.gateway}")
    words.append(f"dev {devices[route.device_index]}")
    if route.source is not None:
        words.append(f"src {route.source}")
    table = route.table if route.table is not None else _LOCAL_TABLE if route.kind is RouteKind.LOCAL else None
    if table is not None:
        words.append(f"table {table}")
    if route.metric is not None:
        words.append(f"metric {route.metric}")
    return " ".join([*words, "proto static"])


def _rule(rule: Rule) -> str:
    words = [f"ip -6 rule add priority {rule.priority}"]
    if rule.mark is not None:
        words.append(f"fwmark {rule.mark:#x}/{rule.mask:#x}")
    words.append("blackhole" if rule.table is None else f"table {rule.table}")
    if rule.longer_than is not None:
        words.append(f"suppress_prefixlength {rule.longer_than}")
    return " ".join(words)
