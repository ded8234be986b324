# SPDX-License-Identifier: BSD-2-Clause
"""The nodes of a lab: their names and addresses, programs that run on them, sockets into their namespaces."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Shape
from mrc.fabric.address import address
from mrc.lab import host_names, namespace, state
from mrc.lab.plan import NodePlan, plan

if TYPE_CHECKING:
    from mrc.lab.netlink import NetlinkSocket
    from mrc.lab.processes import LabProcess

_NETLINK_NETFILTER = 12
T = TypeVar("T")


class LabNodes:
    """Nodes by name: enter their namespaces, run programs there, open netlink sockets. `LabLinks` adds the links."""

    def __init__(self, found: state.LabState) -> None:
        self._state = found
        self._plans = plan(found.topology)
        self._sockets: dict[tuple[str, int], NetlinkSocket] = {}

    @property
    def name(self) -> str:
        """The lab's name."""
        return self._state.name

    @property
    def topology(self) -> Shape:
        """The fabric that the lab is built as."""
        return self._state.topology

    def close(self) -> None:
        """Let go of the sockets into the lab; the lab stays up."""
        while self._sockets:
            self._sockets.popitem()[1].close()

    def processes(self) -> list[tuple[int, str]]:
        """(process id, node) of every program running in the lab, this one aside. Raises SystemRefused."""
        return [(program.pid, program.node) for program in self.programs()]

    def programs(self) -> list[LabProcess]:
        """Every program running in the lab, this one aside. Raises SystemRefused."""
        from mrc.lab import processes

        return processes.running(self._state.namespaces, self._state.tag)

    def end_programs(self, grace_s: float = 5.0) -> list[LabProcess]:
        """End every program running in the lab but this one and those that it was started from; those that ended.

        They are asked to (SIGTERM), and killed `grace_s` seconds later. Raises SystemRefused.
        """
        from mrc.lab import processes

        return processes.end(self._state.namespaces, self._state.tag, grace_s)

    def namespace_path(self, node: str) -> Path:
        """Where the namespace of `node` is: `ip netns exec` takes its last part. Raises CallerError."""
        self._node(node)
        return namespace.NETNS_DIRECTORY / state.namespace_name(self.name, node)

    def fabric_path(self, host: str) -> Path:
        """The file that describes `host`'s fabric (`mrc.fabric.Fabric`), what MRC_FABRIC names. Raises CallerError."""
        if self._node(host).is_switch:
            raise CallerError(f"{host} is a switch: only hosts have a fabric file")
        return state.directory(self.name) / f"{host}.json"

    def addresses(self, host: str) -> tuple[str, ...]:
        """The plain IPv6 addresses of `host`, one a plane. Raises CallerError when it is not a host."""
        if host not in self.topology.hosts:
            raise CallerError(f"no host {host!r}: there are {', '.join(self.topology.hosts)}")
        return tuple(address(host, plane) for plane in range(self.topology.planes))

    def ipv4_address(self, host: str) -> str | None:
        """The address of `host` on the hosts' IPv4 network, which is no part of the fabric; None: there is none.

        Raises CallerError when it is not a host, SystemRefused.
        """
        from mrc.lab import out_of_band

        self.addresses(host)
        return out_of_band.address(self._route(host), host)

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

    def missing(self) -> tuple[str, ...]:
        """Return the nodes whose namespace is gone or was replaced by another one. Raises SystemRefused."""

        def has(node: str) -> bool:
            try:
                found = os.stat(self.namespace_path(node))
            except FileNotFoundError:
                return False
            except OSError as error:
                raise SystemRefused(error.errno, f"cannot look at the namespace of {node}: {error.strerror}") from None
            return (found.st_dev, found.st_ino) == self._state.namespaces[node]

        return tuple(node for node in self._state.namespaces if not has(node))

    def inside(self, node: str, function: Callable[[], T]) -> T:
        """What `function` returns when a thread in the namespace of `node` runs it; sockets it opens belong there."""
        descriptor = self.open_namespace(node)
        try:
            return namespace.in_namespace(descriptor, function)
        finally:
            os.close(descriptor)

    def environment(self, node: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (default: this process's environment) with MRC_LAB, and MRC_FABRIC on a host, not on a switch."""
        environment = dict(os.environ if base is None else base)
        environment["MRC_LAB"] = self.name
        environment.pop("MRC_FABRIC", None)
        if not self._node(node).is_switch:
            environment["MRC_FABRIC"] = str(self.fabric_path(node))
        return environment

    def popen(
        self,
        node: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        start: Callable[..., subprocess.Popen[Any]] = subprocess.Popen,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start `argv` on `node`; `options` are those of subprocess.Popen, which `start` may stand in for.

        Raises CallerError for no such node, SystemRefused when the program cannot be started.
        """
        environment = self.environment(node, env)

        def begin() -> subprocess.Popen[Any]:
            return start(list(argv), env=environment, **options)

        try:
            return self.inside(node, begin)
        except SystemRefused:
            raise
        except OSError as error:
            raise SystemRefused(f"cannot start {argv[0]!r} on {node}: {error.strerror}") from None

    def become(self, node: str, argv: Sequence[str]) -> None:
        """Replace this process by `argv` on `node`: terminal, signals and exit status are then the program's own.

        It sees the names of the lab's hosts in /etc/hosts. Returns only by raising: CallerError for no such node,
        SystemRefused when the program cannot be started.
        """
        environment = self.environment(node)
        namespace.enter(self.open_namespace(node))
        host_names.show(state.directory(self.name) / state.HOSTS_FILE)
        try:
            os.execvpe(argv[0], list(argv), environment)
        except OSError as error:
            raise SystemRefused(f"cannot start {argv[0]!r} on {node}: {error.strerror}") from None

    def _node(self, node: str) -> NodePlan:
        found = self._plans.get(node)
        if found is None:
            known = ", ".join(list(self._plans)[:12])
            raise CallerError(
                f"no node {node!r} in lab {self.name!r}: there are {known}{' ...' if len(self._plans) > 12 else ''}"
            )
        return found

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
