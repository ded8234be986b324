# SPDX-License-Identifier: BSD-2-Clause
"""iperf3 over the kernel's MPTCP: one connection, a subflow in every plane."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mrc.bench.baselines.iperf3 import Iperf3
from mrc.bench.mptcp import MptcpSockets
from mrc.bench.settings import Settings
from mrc.bench.subject import RECEIVER
from mrc.lab import Lab


class Mptcp(Iperf3):
    """The server announces its address in every plane but the first; the client joins each from its own."""

    def __init__(self, seconds: float, length: int, loss: float) -> None:
        super().__init__("mptcp", seconds, length, loss)
        self._sockets = MptcpSockets(f"the baseline {self.name}")

    def check(self) -> None:
        super().check()
        self._sockets.check()

    def prepare(self, lab: Lab) -> None:
        self._sockets.prepare(lab, [RECEIVER])

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self._sockets.environment}

    def _figures(self, document: dict[str, Any]) -> dict[str, Any]:
        figures: Mapping[str, Any] = super()._figures(document)
        # What iperf3 reads is the first subflow's count alone.
        return {**figures, "retransmitted_packets": None}


def make(name: str, settings: Settings) -> Mptcp:
    return Mptcp(settings.seconds, settings.mtu, settings.loss)
