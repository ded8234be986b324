"""iperf3 over the kernel's MPTCP: one connection, a subflow in every plane."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrc.bench.baselines.iperf3 import Iperf3
from mrc.bench.compiler import check_compiler, compile_program
from mrc.bench.settings import Settings
from mrc.bench.subject import RECEIVER, SENDER
from mrc.errors import SystemRefused
from mrc.lab import Lab

_PROGRAM = "mptcp-socket.c"
_IPPROTO_MPTCP = 262
# linux/mptcp.h: announce this address to the peer.
_SIGNAL = 1 << 0


class Mptcp(Iperf3):
    """The server announces its address in every plane but the first; the client joins each from its own."""

    def __init__(self, seconds: float, length: int, loss: float) -> None:
        super().__init__("mptcp", seconds, length, loss)
        self._scratch = tempfile.TemporaryDirectory(prefix="mrc-bench-")
        self._library = Path(self._scratch.name, "mptcp-socket.so")

    def check(self) -> None:
        super().check()
        check_mptcp(self.name)

    def prepare(self, lab: Lab) -> None:
        compile_mptcp_sockets(self._library, self.name)
        planes = lab.topology.planes
        announced = lab.addresses(RECEIVER)[1:]
        lab.inside(RECEIVER, lambda: configure_path_manager(announced, planes))
        lab.inside(SENDER, lambda: configure_path_manager((), planes))

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._library)}

    def _figures(self, document: dict[str, Any]) -> dict[str, Any]:
        figures: Mapping[str, Any] = super()._figures(document)
        # What iperf3 reads is the first subflow's count alone.
        return {**figures, "retransmitted_packets": None}


def make(name: str, settings: Settings) -> Mptcp:
    return Mptcp(settings.seconds, settings.mtu, settings.loss)


def check_mptcp(name: str) -> None:
    """Raises SystemRefused where the baseline of this name lacks a compiler, or the kernel has no MPTCP."""
    check_compiler(f"the baseline {name}")
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()
    except OSError as error:
        raise SystemRefused(
            error.errno, f"this kernel has no MPTCP for the baseline {name}: {error.strerror}"
        ) from None


def compile_mptcp_sockets(library: Path, name: str) -> None:
    """Compile what makes a program's TCP sockets MPTCP ones (LD_PRELOAD). Raises SystemRefused where that fails."""
    compile_program(_PROGRAM, library, f"the baseline {name}", "-shared", "-fPIC", "-ldl")


def configure_path_manager(announced: tuple[str, ...], planes: int) -> None:
    """Set this namespace's path manager: so many subflows, and these addresses alone announced to a client."""
    from pyroute2 import MPTCP

    with MPTCP() as manager:
        manager.limits("set", subflows=planes)
        manager.limits("set", rcv_add_addrs=planes)
        manager.endpoint("flush")
        for address in announced:
            manager.endpoint("add", addr6=address, flags=_SIGNAL)
