# SPDX-License-Identifier: BSD-2-Clause
"""Two ordinary hosts, a and b, with two cables between them and no fabric, and what runs there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import programs
from live_run import Running, in_time
from patience import until_in_use
from programs import MRC

from mrc.lab.namespace import NETNS_DIRECTORY, in_namespace

T = TypeVar("T")
IPV4 = {"a": ("10.7.0.1", "10.7.1.1"), "b": ("10.7.0.2", "10.7.1.2")}
IPV6 = {"a": ("fd07:0::1", "fd07:1::1"), "b": ("fd07:0::2", "fd07:1::2")}
MIXED = {"a": ("10.7.0.1", "fd07:1::1"), "b": ("10.7.0.2", "fd07:1::2")}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Hosts a and b, two cables between them (interfaces e0 and e1 at both ends), and what runs there.

    With an Ethernet MTU of 9000, `mtu`, there is room for a path MTU of 4096.
    """

    def __init__(self, prefix: str, mtu: int = 1500) -> None:
        self._mtu = str(mtu)
        self.names = {host: f"{prefix}-{host}" for host in "ab"}
        self.scratch = Path()
        self._running: list[Running] = []

    def build(self) -> None:
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for plane in range(2):
            self.lay(plane)
        self.carry()

    def lay(self, plane: int) -> None:
        """Lay a cable, and give its ends their addresses."""
        mtu = ("mtu", self._mtu)
        cable = ["type", "veth", "peer", "name", f"e{plane}", *mtu, "netns", self.names["b"]]
        ip("-n", self.names["a"], "link", "add", f"e{plane}", *mtu, *cable)
        for host, name in self.names.items():
            ip("-n", name, "addr", "add", f"{IPV4[host][plane]}/24", "dev", f"e{plane}")
            ip("-n", name, "addr", "add", f"{IPV6[host][plane]}/64", "dev", f"e{plane}", "nodad")
            ip("-n", name, "link", "set", f"e{plane}", "up")

    def carry(self) -> None:
        """Both cables are in use at both ends."""
        for name in self.names.values():
            until_in_use({"e0", "e1"}, name)

    def demolish(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def inside(self, host: str, function: Callable[[], T]) -> T:
        """What `function` returns on this host."""
        descriptor = os.open(NETNS_DIRECTORY / self.names[host], os.O_RDONLY | os.O_CLOEXEC)
        try:
            return in_namespace(descriptor, function)
        finally:
            os.close(descriptor)

    def start(self, host: str, argv: Sequence[str | Path]) -> Running:
        environment = {key: value for key, value in os.environ.items() if key != "MRC_FABRIC"}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = self.inside(host, lambda: programs.start(argv, **streams, env=environment))
        self._running.append(Running(process))
        return self._running[-1]

    def recv(self, *options: str, host: str = "b") -> Running:
        """A receiver that has printed its ticket."""
        directory = self.scratch / "in"
        directory.mkdir(exist_ok=True)
        running = self.start(host, [*MRC, "recv", "--dir", directory, *options])
        assert running.process.stdout is not None
        running.ticket = running.process.stdout.readline().strip()
        assert running.ticket.startswith("mrc1:"), running.process.communicate()
        return running

    def send(self, receiver: Running, file: Path, *options: str | Path, host: str = "a") -> Running:
        return self.start(host, [*MRC, "send", file, receiver.ticket, *options])

    def file(self, size: int) -> Path:
        path = self.scratch / "file"
        path.write_bytes(os.urandom(size))
        return path

    def in_time(self, act: Callable[[int], T], *amounts: int) -> T:
        """`in_time` of what is started here."""
        return in_time(self._running, act, *amounts)

    def forget(self) -> None:
        """Take away what was received: a file that is there already would not be sent again."""
        for path in (self.scratch / "in").glob("*"):
            path.unlink()

    def close(self) -> None:
        for running in self._running:
            running.kill()
        self._running.clear()


def bound(addresses: Sequence[str]) -> list[str]:
    return [word for address in addresses for word in ("--bind", address)]
