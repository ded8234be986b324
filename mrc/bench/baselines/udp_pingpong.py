# SPDX-License-Identifier: BSD-2-Clause
"""The yardstick of latency: a ping-pong over UDP in C, blocking sockets, one datagram on its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrc.bench.compiler import check_compiler, compile_program
from mrc.bench.figures import LatencyResult
from mrc.bench.processes import SCRATCH
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.lab.scratch import ScratchDirectory

_PROGRAM = "udp-pingpong.c"
_WHO = "the baseline udp of --latency"


class UdpPingpong:
    """Compiled once, a server and a client for each run, between the plain IPv6 addresses."""

    name = "udp"

    def __init__(self, size: int, seconds: float, loss: float) -> None:
        self.loss = loss
        self._size = size
        self._seconds = seconds
        self._scratch = ScratchDirectory(SCRATCH)
        self._program = self._scratch.path / "udp-pingpong"

    def check(self) -> None:
        check_compiler(_WHO)

    def prepare(self, lab: Lab) -> None:
        compile_program(_PROGRAM, self._program, _WHO)

    def run(self, lab: Lab) -> Mapping[str, Any]:
        address, program = lab.addresses(RECEIVER)[0], str(self._program)
        with start_on(lab, RECEIVER, "udp-pingpong", [program, "serve", address]) as server:
            port = server.started()
            pinging = [program, "ping", address, port, str(self._size), str(self._seconds)]
            with start_on(lab, SENDER, "udp-pingpong", pinging) as client:
                out = client.rest(self._seconds + PATIENCE_S)
        if not out:
            raise PeerError("udp-pingpong failed: not one datagram came back")
        return LatencyResult.of(self._size, [int(line) / 1e3 for line in out.split()]).to_json()


def make(name: str, settings: Settings) -> UdpPingpong:
    return UdpPingpong(settings.size, settings.seconds, settings.loss)
