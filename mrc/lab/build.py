"""Building and removing a lab: the order of steps, and what is left if it stops in the middle.

Namespaces are made without a name first: were the process to die then, the kernel would take them back. They get their
names last, after their identities are on disk, so a crash at any point leaves only what `remove` can recognise.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mrc.errors import CallerError, SystemRefused
from mrc.lab import messages, namespace, state
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.lab.plan import LOOPBACK_INDEX, NodePlan, host_fabric, plan
from mrc.lab.status import wait_until_running
from mrc.topology import Clos

# Why each is there is in docs/lab.md, "Settings of the kernel".
_EVERYWHERE = {
    "ipv6/conf/all/accept_dad": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/addr_gen_mode": "1",
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/default/router_solicitations": "0",
    "ipv6/conf/all/seg6_enabled": "1",
    "ipv6/conf/default/seg6_enabled": "1",
    "ipv6/icmp/ratelimit": "1000",
}
_ON_HOSTS = {"ipv6/conf/all/forwarding": "0", "ipv6/conf/default/forwarding": "0"}
_ON_SWITCHES = {
    "ipv6/conf/all/forwarding": "1",
    "ipv6/conf/default/forwarding": "1",
    "ipv6/fib_multipath_hash_policy": "1",
}


@dataclass(frozen=True, slots=True)
class _Room:
    """A namespace under construction: an open descriptor of it and a netlink socket inside it."""

    descriptor: int
    netlink: NetlinkSocket

    def close(self) -> None:
        self.netlink.close()
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Removal:
    """What taking a lab down did: namespaces removed, and names left alone because something else bears them."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


def build(name: str, topology: Clos) -> bool:
    """Build the lab `name`. Returns True when a crashed, half-built one of that name had to be cleared first.

    Raises CallerError when the name is in use, SystemRefused when the system does not allow it; nothing stays behind.
    """
    state.check_name(name)
    plans = plan(topology)
    with state.builders_lock():
        replaced = _clear_crashed(name)
        for node in plans:
            if os.path.lexists(_path(name, node)):
                raise CallerError(f"{_path(name, node)} exists already and is not this lab's: choose another --name")
        state.reserve(name)
        try:
            _build(state.LabState(name, f"mrc lab {name} {uuid.uuid4()}", topology), plans)
        except BaseException:
            _remove(name)
            raise
    return replaced


def remove(name: str) -> Removal:
    """Remove the lab `name`, whole or half-built, and nothing else. Raises CallerError when there is none."""
    state.check_name(name)
    with state.builders_lock():
        return _remove(name)


def _path(lab: str, node: str) -> Path:
    return namespace.NETNS_DIRECTORY / state.namespace_name(lab, node)


def _clear_crashed(name: str) -> bool:
    if not state.directory(name).is_dir():
        return False
    found = state.load(name)
    if found is not None and found.phase == state.UP:
        raise CallerError(f"a lab {name!r} exists already: `mrc lab down --name {name}` removes it")
    _remove(name)
    return True


def _build(intention: state.LabState, plans: Mapping[str, NodePlan]) -> None:
    intention.save()
    rooms: dict[str, _Room] = {}
    try:
        namespace.in_thread(lambda: _make_rooms(plans, intention.tag, rooms))
        for planned in plans.values():
            _configure(planned, plans, rooms, intention.topology)
        for planned in plans.values():
            indices = [interface.index for interface in planned.interfaces]
            wait_until_running(rooms[planned.name].netlink, planned.name, indices)
        _write_fabrics(intention)
        recorded = intention.with_namespaces(
            {node: namespace.identity(room.descriptor) for node, room in rooms.items()}
        )
        recorded.save()
        with namespace.netns_directory():
            for node, room in rooms.items():
                namespace.publish(state.namespace_name(intention.name, node), room.descriptor)
        recorded.finished().save()
    finally:
        for room in rooms.values():
            room.close()


def _make_rooms(plans: Mapping[str, NodePlan], tag: str, rooms: dict[str, _Room]) -> None:
    """In one thread, a namespace after another: kernel settings, `lo`, and the first half of every cable's ends."""
    for node in plans.values():
        try:
            descriptor = namespace.unshare_network()
        except OSError as error:
            raise SystemRefused(f"cannot make the namespace of {node.name}: {error}") from None
        try:
            rooms[node.name] = _Room(descriptor, NetlinkSocket())
        except BaseException:
            os.close(descriptor)
            raise
        for setting, value in {**_EVERYWHERE, **(_ON_SWITCHES if node.is_switch else _ON_HOSTS)}.items():
            _set(setting, value)
        requests = [messages.loopback_up(tag)]
        if node.is_switch:
            requests.append(messages.usid_device())
        rooms[node.name].netlink.transact(requests)


def _set(setting: str, value: str) -> None:
    path = f"/proc/sys/net/{setting}"
    try:
        Path(path).write_text(value)
    except OSError as error:
        raise SystemRefused(
            f"cannot set {path} to {value}: {error.strerror}: the lab needs IPv6 and SRv6 in the kernel"
        ) from None


def _configure(node: NodePlan, plans: Mapping[str, NodePlan], rooms: Mapping[str, _Room], topology: Clos) -> None:
    """Lay the cables whose lower end is here, then give this node its addresses, neighbours and routes.

    Hosts come first, then leaves, then spines, so every cable into a node from below lies when its turn comes.
    """
    requests: list[Request] = []
    ends = {interface.number: interface for interface in node.interfaces}
    for number, link in enumerate(topology.links):
        if link.lower == node.name:
            upper = plans[link.upper].interface(link)
            requests.append(messages.veth_pair(ends[number], upper, rooms[link.upper].descriptor, topology.mtu))
    requests.extend(_node_requests(node))
    rooms[node.name].netlink.transact(requests)


def _node_requests(node: NodePlan) -> Iterator[Request]:
    for text in node.loopback_addresses:
        yield messages.address(LOOPBACK_INDEX, text, 128)
    for interface in node.interfaces:
        yield from messages.interface_configuration(interface)
    for route in node.routes:
        yield messages.route(route)


def _write_fabrics(intention: state.LabState) -> None:
    for host, name in enumerate(intention.topology.hosts):
        path = state.directory(intention.name) / f"{name}.json"
        try:
            path.write_text(host_fabric(intention.topology, host, intention.name).to_json())
        except OSError as error:
            raise SystemRefused(f"cannot write {path}: {error.strerror}") from None


def _remove(name: str) -> Removal:
    found = state.load(name)
    removed: list[str] = []
    kept: list[str] = []
    if found is not None:
        # The names come from the topology, not from the recorded identities: a crash may have left a bare mount point.
        for node in found.topology.nodes:
            title = state.namespace_name(name, node)
            wanted = found.namespaces.get(node)
            existed = os.path.lexists(namespace.NETNS_DIRECTORY / title)
            if not namespace.withdraw(title, partial(_is_ours, wanted=wanted, tag=found.tag)):
                kept.append(title)
            elif existed:
                removed.append(title)
    state.release(name)
    return Removal(tuple(removed), tuple(kept))


def _is_ours(descriptor: int, wanted: tuple[int, int] | None, tag: str) -> bool:
    """Whether a namespace is the one recorded: same identity, and our tag on its `lo` (inode numbers are reused)."""
    if namespace.identity(descriptor) != wanted:
        return False
    answers: list[bytes] = []
    netlink = NetlinkSocket.inside(descriptor)
    try:
        netlink.dump("read interfaces", messages.dump_links(), lambda _, data: answers.append(data))
    finally:
        netlink.close()
    return any(tag.encode() in answer for answer in answers)
