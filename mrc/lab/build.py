# SPDX-License-Identifier: BSD-2-Clause
"""Building and removing a lab: the order of steps, and what is left if it stops in the middle.

Namespaces are made without a name first: were the process to die then, the kernel would take them back. They get their
names last, after their identities are on disk, so a crash at any point leaves only what `remove` can recognise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Description, Link
from mrc.lab import host_names, marking, messages, namespace, out_of_band, outlived, state
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.lab.plan import NodePlan, host_fabric, plan
from mrc.lab.processes import bears, end_relays
from mrc.lab.settled import wait_until_settled
from mrc.lab.witnesses import Witnesses
from mrc.threads import in_thread

# Of the differences between two descriptions, how many an error names.
_SHOWN = 8
# How long relays of delayed links have to end.
_RELAYS_S = 5.0


@dataclass(frozen=True, slots=True)
class _Room:
    """A namespace under construction: an open descriptor of it and a netlink socket inside it."""

    descriptor: int
    netlink: NetlinkSocket

    def close(self) -> None:
        self.netlink.close()
        os.close(self.descriptor)


class Outcome(Enum):
    """What `build` found and did."""

    BUILT = "built"
    REPLACED = "cleared a half-built lab whose builder crashed, then built"
    FOUND = "found the same lab up"


@dataclass(frozen=True, slots=True)
class Removal:
    """What taking a lab down did: namespaces removed, and names left alone because something else bears them.

    The kernel takes cables away a moment after their namespaces. Where that was waited for, `cables_gone_s` is how many
    seconds it took (None: it was not waited for, or not done in that time), `cables_left` what was there still.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    cables_gone_s: float | None = None
    cables_left: tuple[str, ...] = ()


def build(
    name: str,
    description: Description,
    *,
    fast: bool = False,
    exist_ok: bool = False,
    before_up: Callable[[state.LabState], None] = lambda _: None,
) -> Outcome:
    """Build the lab `name`. A crashed, half-built one of that name is cleared first.

    `before_up` is called when all is there but the lab is not yet declared up; what it raises takes everything back.
    `fast` is written down for it, and for all who open the lab later.
    With `exist_ok` a lab of that name that was built from the same description is left as it is.
    Raises CallerError when the name is in use, SystemRefused when the system does not allow it; nothing stays behind.
    """
    state.check_name(name)
    plans = plan(description.shape)
    with state.builders_lock():
        found = state.load(name) if state.directory(name).is_dir() else None
        if found is not None and found.phase == state.UP:
            _refuse_unless_same(found, description, fast, exist_ok)
            return Outcome.FOUND
        crashed = state.directory(name).is_dir()
        if crashed:
            _remove(name)
        for node in plans:
            if os.path.lexists(_path(name, node)):
                raise CallerError(f"{_path(name, node)} exists already and is not this lab's: choose another --name")
        state.reserve(name)
        try:
            intention = state.LabState(name, f"mrc lab {name} {os.urandom(16).hex()}", description, fast=fast)
            _build(intention, plans, before_up)
        except BaseException:
            _remove(name)
            raise
    return Outcome.REPLACED if crashed else Outcome.BUILT


def _refuse_unless_same(found: state.LabState, wanted: Description, fast: bool, exist_ok: bool) -> None:
    advice = f"`mrc lab down --name {found.name}` removes it"
    if not exist_ok:
        raise CallerError(f"a lab {found.name!r} exists already: {advice}")
    differences = list(found.description.differences(wanted))
    if found.fast != fast:
        differences.append(f"its fabric is {state.FABRICS[found.fast]}, not {state.FABRICS[fast]}")
    if differences:
        shown = "; ".join(differences[:_SHOWN]) + (
            f"; and {len(differences) - _SHOWN} more" if differences[_SHOWN:] else ""
        )
        raise CallerError(
            f"a lab {found.name!r} of another description exists: {shown}: {advice}, or choose another --name"
        )


def remove(name: str, wait_s: float = 0.0) -> Removal:
    """Remove the lab `name`, whole or half-built, and nothing else. Raises CallerError when there is none.

    Waits up to `wait_s` seconds until the kernel has taken away every cable but those to a namespace that a program
    still runs in.
    """
    state.check_name(name)
    witnesses = Witnesses()
    try:
        with state.builders_lock():
            outlived.forget_ended()
            removal = _remove(name, witnesses if wait_s > 0 else None)
        if wait_s <= 0:
            return removal
        started = time.monotonic()
        left = witnesses.wait(wait_s)
        return replace(removal, cables_left=left, cables_gone_s=None if left else time.monotonic() - started)
    finally:
        witnesses.close()


def _path(lab: str, node: str) -> Path:
    return namespace.NETNS_DIRECTORY / state.namespace_name(lab, node)


def _build(
    intention: state.LabState, plans: Mapping[str, NodePlan], before_up: Callable[[state.LabState], None]
) -> None:
    intention.save()
    rooms: dict[str, _Room] = {}
    try:
        in_thread(lambda: _make_rooms(plans, intention.tag, rooms))
        links, mtu = intention.topology.links, intention.topology.mtu
        for planned in plans.values():
            _configure(planned, plans, rooms, links, mtu)
        for planned in plans.values():
            netlink = rooms[planned.name].netlink
            wait_until_settled(netlink, planned.name, planned.interfaces, planned.loopback_addresses)
        has_ipv4 = out_of_band.lay(
            intention.topology, lambda node: rooms[node].netlink, lambda node: rooms[node].descriptor
        )
        _write_files(intention, has_ipv4)
        recorded = intention.with_namespaces(
            {node: namespace.identity(room.descriptor) for node, room in rooms.items()}
        )
        recorded.save()
        with namespace.netns_directory():
            for node, room in rooms.items():
                namespace.publish(state.namespace_name(intention.name, node), room.descriptor)
        before_up(recorded)
        recorded.finished().save()
    finally:
        for room in rooms.values():
            room.close()


def _make_rooms(plans: Mapping[str, NodePlan], tag: str, rooms: dict[str, _Room]) -> None:
    """In one thread, a namespace after another: kernel settings, `lo`, and what marks packets."""
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
        for setting, value in node.settings:
            _set(setting, value)
        requests = [messages.loopback_up(tag)]
        if node.needs_usid_device:
            requests.append(messages.usid_device())
        rooms[node.name].netlink.transact(requests)
        if node.marking is not None:
            marking.install(node.marking)


def _set(setting: str, value: str) -> None:
    path = f"/proc/sys/net/{setting}"
    try:
        Path(path).write_text(value)
    except OSError as error:
        raise SystemRefused(
            f"cannot set {path} to {value}: {error.strerror}: the lab needs IPv6 and SRv6 in the kernel"
        ) from None


def _configure(
    node: NodePlan, plans: Mapping[str, NodePlan], rooms: Mapping[str, _Room], links: Sequence[Link], mtu: int
) -> None:
    """Lay the cables whose lower end is here, then give this node its addresses, neighbours and routes.

    Hosts come first, then leaves, then spines, so every cable into a node from below lies when its turn comes.
    """
    requests: list[Request] = []
    for interface in node.interfaces:
        if not interface.upper:
            link = links[interface.number]
            upper = plans[link.upper].interface(link)
            requests.append(messages.veth_pair(interface, upper, rooms[link.upper].descriptor, mtu))
    for interface in node.interfaces:
        requests.extend(messages.interface_configuration(interface))
    requests.extend(messages.own_configuration(node))
    rooms[node.name].netlink.transact(requests)


def _write_files(intention: state.LabState, has_ipv4: bool) -> None:
    """What programs in the lab read: a fabric file for each host, names of all of them."""
    shape, name = intention.topology, intention.name
    texts = {f"{host}.json": host_fabric(shape, number, name).to_json() for number, host in enumerate(shape.hosts)}
    texts[state.HOSTS_FILE] = host_names.hosts_text(shape, name, has_ipv4)
    for file, text in texts.items():
        path = state.directory(name) / file
        try:
            path.write_text(text, errors="surrogateescape")
        except OSError as error:
            raise SystemRefused(f"cannot write {path}: {error.strerror}") from None


def _remove(name: str, witnesses: Witnesses | None = None) -> Removal:
    found = state.load(name)
    removed: list[str] = []
    kept: list[str] = []
    if found is not None:
        with ExitStack() as held:
            # All are looked at before the first goes: the kernel, busy taking that one down, answers slowly.
            ours = _recognised(found, held)
            if witnesses is not None:
                witnesses.watch(found, ours)
            end_relays(found.namespaces, found.tag, _RELAYS_S)
            # The names come from the topology, not from the recorded identities: a crash may have left a bare mount
            # point.
            for node in found.topology.nodes:
                title = state.namespace_name(name, node)
                existed = os.path.lexists(namespace.NETNS_DIRECTORY / title)
                if not namespace.withdraw(title, partial(_is_held, held=ours.get(node))):
                    kept.append(title)
                elif existed:
                    removed.append(title)
        outlived.keep(found)
    state.release(name)
    return Removal(tuple(removed), tuple(kept))


def _recognised(found: state.LabState, held: ExitStack) -> dict[str, int]:
    """A descriptor of each namespace that bears its name and is this lab's, by node; `held` closes them."""
    ours: dict[str, int] = {}
    for node, wanted in found.namespaces.items():
        try:
            descriptor = os.open(_path(found.name, node), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # withdrawing it says what is wrong
        held.callback(os.close, descriptor)
        if namespace.is_namespace(os.fstat(descriptor)) and _is_ours(descriptor, wanted, found.tag):
            ours[node] = descriptor
    return ours


def _is_held(descriptor: int, held: int | None) -> bool:
    # An open namespace keeps its inode number, so this is no other one.
    return held is not None and namespace.identity(descriptor) == namespace.identity(held)


def _is_ours(descriptor: int, wanted: tuple[int, int], tag: str) -> bool:
    """Whether a namespace is the one recorded: same identity, and our tag on its `lo` (inode numbers are reused)."""
    return namespace.identity(descriptor) == wanted and bears(descriptor, tag)
