"""The lab as an object: build or open it, run things in it, break it, mend it, look at it, take it down."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mrc.errors import CallerError, SystemRefused
from mrc.lab import namespace, state
from mrc.lab.plan import NodePlan, host_address, links_of_target, plan
from mrc.topology import Clos, Link

if TYPE_CHECKING:
    from mrc.lab.build import Removal
    from mrc.lab.netlink import NetlinkSocket, Request
    from mrc.lab.status import LabStatus

_NETLINK_NETFILTER = 12
T = TypeVar("T")


def lab_names() -> tuple[str, ...]:
    """The names of all labs on this system, half-built ones too. Raises SystemRefused."""
    return state.names()


class Lab:
    """A fabric of network namespaces that is up. Make one with `Lab.up` or `Lab.open`, not directly.

    As a context manager a lab from `up` is taken down at the end of the block, one from `open` only let go of.
    It is safe to use from several threads. `replaced_crashed` says that `up` cleared a half-built lab first.
    """

    def __init__(self, found: state.LabState, replaced_crashed: bool = False, ours: bool = False) -> None:
        self._state = found
        self._plans = plan(found.topology)
        self._sockets: dict[tuple[str, int], NetlinkSocket] = {}
        self._ours = ours
        self.replaced_crashed = replaced_crashed

    @classmethod
    def up(cls, name: str = "mrc", topology: Clos | None = None) -> Lab:
        """Build a lab (default: 2 planes of 2 leaves and 4 spines, 2 hosts) and open it.

        Raises CallerError when the name is in use, SystemRefused when the system does not allow it; then
        nothing stays behind. A half-built lab of that name whose builder crashed is cleared first.
        """
        from mrc.lab import build

        replaced = build.build(name, topology or Clos())
        return cls(_load_up(name), replaced_crashed=replaced, ours=True)

    @classmethod
    def open(cls, name: str = "mrc") -> Lab:
        """A lab that is up already. Raises CallerError when there is none of that name, or only a half-built one."""
        return cls(_load_up(name))

    @classmethod
    def remove(cls, name: str = "mrc") -> Removal:
        """Take down a lab by name, whole or half-built. Raises CallerError when there is none."""
        from mrc.lab import build

        return build.remove(name)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            self.down()
        else:
            self.close()

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def topology(self) -> Clos:
        return self._state.topology

    def close(self) -> None:
        """Let go of the sockets into the lab; the lab stays up."""
        while self._sockets:
            self._sockets.popitem()[1].close()

    def down(self) -> Removal:
        """Take the lab down. Programs still running in it keep their namespace until they end: see `processes`."""
        self.close()
        return self.remove(self.name)

    def processes(self) -> list[tuple[int, str]]:
        """(process id, node) of every program running in the lab, this one aside."""
        return namespace.processes_in({found: node for node, found in self._state.namespaces.items()})

    def namespace_path(self, node: str) -> Path:
        """Where the namespace of `node` is: `ip netns exec` takes its last part. Raises CallerError."""
        self._node(node)
        return namespace.NETNS_DIRECTORY / state.namespace_name(self.name, node)

    def fabric_path(self, host: str) -> Path:
        """The file that tells `host` its fabric (`mrc.topology.Fabric`), what MRC_FABRIC names. Raises CallerError."""
        if self._node(host).is_switch:
            raise CallerError(f"{host} is a switch: only hosts have a fabric file")
        return state.directory(self.name) / f"{host}.json"

    def addresses(self, host: str) -> tuple[str, ...]:
        """The plain IPv6 addresses of `host`, one a plane. Raises CallerError when it is not a host."""
        if host not in self.topology.hosts:
            raise CallerError(f"no host {host!r}: there are {', '.join(self.topology.hosts)}")
        number = self.topology.hosts.index(host)
        return tuple(host_address(plane, number) for plane in range(self.topology.planes))

    def open_namespace(self, node: str) -> int:
        """An open descriptor of the namespace of `node`, the caller's to close.

        Raises CallerError for no such node, SystemRefused when the namespace is gone or another has its name.
        """
        path = self.namespace_path(node)
        advice = f"`mrc lab down --name {self.name}` clears the rest"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise SystemRefused(f"cannot open {path}: {error.strerror}: {advice}") from None
        if namespace.identity(descriptor) != self._state.namespaces.get(node):
            os.close(descriptor)
            raise SystemRefused(f"{path} is not the namespace this lab made: {advice}")
        return descriptor

    def inside(self, node: str, function: Callable[[], T]) -> T:
        """What `function` returns when a thread in the namespace of `node` runs it; sockets it opens belong there."""
        descriptor = self.open_namespace(node)
        try:
            return namespace.in_namespace(descriptor, function)
        finally:
            os.close(descriptor)

    def environment(self, node: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (default: this process's environment) with MRC_FABRIC set on a host, unset on a switch."""
        environment = dict(os.environ if base is None else base)
        environment.pop("MRC_FABRIC", None)
        if not self._node(node).is_switch:
            environment["MRC_FABRIC"] = str(self.fabric_path(node))
        return environment

    def popen(
        self, node: str, argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start `argv` on `node`; `options` are those of subprocess.Popen.

        Raises CallerError for no such node, SystemRefused when the program cannot be started.
        """
        environment = self.environment(node, env)

        def start() -> subprocess.Popen[Any]:
            return subprocess.Popen(list(argv), env=environment, **options)

        try:
            return self.inside(node, start)
        except SystemRefused:
            raise
        except OSError as error:
            raise SystemRefused(f"cannot start {argv[0]!r} on {node}: {error.strerror}") from None

    def become(self, node: str, argv: Sequence[str]) -> None:
        """Replace this process by `argv` on `node`: terminal, signals and exit status are then the program's own.

        Returns only by raising: CallerError for no such node, SystemRefused when the program cannot be started.
        """
        environment = self.environment(node)
        namespace.enter(self.open_namespace(node))
        try:
            os.execvpe(argv[0], list(argv), environment)
        except OSError as error:
            raise SystemRefused(f"cannot start {argv[0]!r} on {node}: {error.strerror}") from None

    def links_of(self, target: str) -> tuple[Link, ...]:
        """The links `target` names: a link, a switch or host (all its links), `plane:N`. Raises CallerError."""
        return links_of_target(self.topology, target)

    def cut(self, target: str) -> int:
        """Break every cable `target` names. Returns CLOCK_MONOTONIC nanoseconds taken just before the first broke.

        The upper end (the leaf's towards a host, the spine's towards a leaf) is set down; the lower end loses
        carrier with its configuration intact, as with a real broken cable. Raises CallerError, SystemRefused.
        """
        from mrc.lab import messages

        by_node: dict[str, list[Request]] = {}
        for link in self.links_of(target):
            end = self._plans[link.upper].interface(link)
            by_node.setdefault(link.upper, []).append(messages.link_state(end, up=False))
        sockets = {node: self._route(node) for node in by_node}
        cut_at_ns = time.monotonic_ns()
        for node, requests in by_node.items():
            sockets[node].transact(requests)
        return cut_at_ns

    def heal(self, target: str) -> int:
        """Mend every cable `target` names, whichever end was down and however it came to be.

        Both ends get back what a link-down flushes. Returns CLOCK_MONOTONIC nanoseconds taken when all was in place
        and every end operational. Raises CallerError, SystemRefused.
        """
        from mrc.lab import messages, status

        up: dict[str, list[Request]] = {}
        configuration: dict[str, list[Request]] = {}
        ends: dict[str, list[int]] = {}
        for link in self.links_of(target):
            for node in (link.lower, link.upper):
                end = self._plans[node].interface(link)
                ends.setdefault(node, []).append(end.index)
                up.setdefault(node, []).append(messages.link_state(end, up=True))
                configuration.setdefault(node, []).extend(messages.interface_configuration(end))
        for requests_of in (up, configuration):
            for node, requests in requests_of.items():
                self._route(node).transact(requests)
        for node, indices in ends.items():
            status.wait_until_running(self._route(node), node, indices)
        return time.monotonic_ns()

    def impair(self, link: str, loss: float, toward: str | None = None) -> None:
        """Lose a random share `loss` (0 < loss <= 1) of what `link` carries, each way or only toward one end.

        Replaces what was lost there before. Raises CallerError, SystemRefused.
        """
        from mrc.lab import impairment

        for node, interface in self._ends(link, toward):
            impairment.install(self._filters(node), interface, loss)

    def clear(self, link: str, toward: str | None = None) -> None:
        """Lose nothing on `link` any more. Raises CallerError, SystemRefused."""
        from mrc.lab import impairment

        for node, interface in self._ends(link, toward):
            impairment.clear(self._filters(node), interface)

    def status(self) -> LabStatus:
        """Ask the kernel how the lab is. Raises SystemRefused."""
        from mrc.lab import status

        return status.read(self.name, self.topology, self._route, self._filters)

    def _node(self, node: str) -> NodePlan:
        found = self._plans.get(node)
        if found is None:
            known = ", ".join(list(self._plans)[:12])
            raise CallerError(
                f"no node {node!r} in lab {self.name!r}: there are {known}{' ...' if len(self._plans) > 12 else ''}"
            )
        return found

    def _ends(self, link: str, toward: str | None) -> list[tuple[str, str]]:
        found = self.topology.link(link)
        if toward not in (None, found.lower, found.upper):
            raise CallerError(f"{toward!r} is no end of {found.name}: its ends are {found.lower} and {found.upper}")
        return [
            (node, self._plans[node].interface(found).name)
            for node in (found.lower, found.upper)
            if toward in (None, node)
        ]

    def _route(self, node: str) -> NetlinkSocket:
        return self._netlink(node, socket.NETLINK_ROUTE)

    def _filters(self, node: str) -> NetlinkSocket:
        return self._netlink(node, _NETLINK_NETFILTER)

    def _netlink(self, node: str, protocol: int) -> NetlinkSocket:
        found = self._sockets.get((node, protocol))
        if found is None:
            from mrc.lab.netlink import NetlinkSocket

            found = self.inside(node, lambda: NetlinkSocket(protocol))
            found = self._sockets.setdefault((node, protocol), found)
        return found


def _load_up(name: str) -> state.LabState:
    found = state.load(name)
    if found is None or found.phase != state.UP:
        raise CallerError(
            f"lab {name!r} is half-built (its builder is at work, or crashed): `mrc lab down --name {name}` clears it"
        )
    return found
