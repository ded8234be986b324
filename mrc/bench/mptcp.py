# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's MPTCP for programs that know TCP alone: a subflow in every plane."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mrc.bench.compiler import check_compiler, compile_program
from mrc.bench.processes import SCRATCH
from mrc.errors import SystemRefused
from mrc.lab import Lab
from mrc.lab.scratch import ScratchDirectory

_PROGRAM = "mptcp-socket.c"
_IPPROTO_MPTCP = 262
# linux/mptcp.h: announce this address to the peer.
_SIGNAL = 1 << 0


class MptcpSockets:
    """A library that makes a program's TCP sockets MPTCP ones. `who` needs them: for the texts of errors.

    It lies in `folder`, without one in a folder of its own that is gone with this object.
    """

    def __init__(self, who: str, folder: Path | None = None) -> None:
        self._who = who
        if folder is None:
            self._own = ScratchDirectory(SCRATCH)
            folder = self._own.path
        self._library = folder / "mptcp-socket.so"

    def check(self) -> None:
        """Raises SystemRefused without a compiler, and where the kernel has no MPTCP."""
        check_compiler(self._who)
        try:
            socket.socket(socket.AF_INET6, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()
        except OSError as error:
            raise SystemRefused(error.errno, f"this kernel has no MPTCP for {self._who}: {error.strerror}") from None

    def prepare(self, lab: Lab, listening: Sequence[str]) -> None:
        """Compile it, and set the path managers for these `listening` hosts. Raises SystemRefused where compiling
        fails."""
        compile_program(_PROGRAM, self._library, self._who, "-shared", "-fPIC", "-ldl")
        set_path_managers(lab, listening)

    @property
    def environment(self) -> Mapping[str, str]:
        """What to add to the program's."""
        return {"LD_PRELOAD": str(self._library)}


def set_path_managers(lab: Lab, listening: Sequence[str]) -> None:
    """Give connections to these hosts a subflow in every plane: they announce their addresses in all but the first."""
    for host in lab.topology.hosts:
        announced = lab.addresses(host)[1:] if host in listening else ()
        lab.inside(host, partial(_set_path_manager, announced, lab.topology.planes))


def _set_path_manager(announced: Sequence[str], planes: int) -> None:
    """That of this namespace: so many subflows, and these addresses alone announced to a client."""
    from pyroute2 import MPTCP

    with MPTCP() as manager:
        manager.limits("set", subflows=planes)
        manager.limits("set", rcv_add_addrs=planes)
        manager.endpoint("flush")
        for address in announced:
            manager.endpoint("add", addr6=address, flags=_SIGNAL)
