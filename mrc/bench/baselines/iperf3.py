"""iperf3 between the plain IPv6 addresses of two hosts: UDP without limit, TCP, and TCP over the kernel's MPTCP."""

from __future__ import annotations

import errno
import math
import shutil
from collections.abc import Mapping
from typing import Any

from mrc.bench.processes import first_line, json_output, running
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.errors import PeerError, SystemRefused
from mrc.lab import Lab


class Iperf3:
    """One iperf3 server for each run (`-s -1`) and one client. What counts is what was received.

    `name` is udp (`-u -b 0 -l MTU`: datagrams as large as MRC's payload, no limit, nothing sent twice), tcp,
    or that of a subclass.
    """

    def __init__(self, name: str, seconds: float, mtu: int, loss: float) -> None:
        self.name = name
        self.loss = loss
        # Whole seconds are all iperf3 knows, and 0 means for ever.
        self._seconds = max(1, math.ceil(seconds))
        self._mtu = mtu

    def check(self) -> None:
        if shutil.which("iperf3") is None:
            raise SystemRefused(
                errno.ENOENT, f"the baseline {self.name} needs the program iperf3: install the package iperf3"
            )

    def prepare(self, lab: Lab) -> None:
        """Nothing: the lab routes plain IPv6."""

    def environment(self) -> dict[str, str] | None:
        """Of both programs; None: this process's."""
        return None

    def run(self, lab: Lab) -> Mapping[str, Any]:
        address = lab.addresses(RECEIVER)[0]
        env = self.environment()
        with running(lab, RECEIVER, ["iperf3", "-s", "-1", "--forceflush"], env=env) as server:
            first_line(server, "iperf3 -s", "listening")
            command = ["iperf3", "-c", address, "-t", str(self._seconds), "-J", *self._protocol_options()]
            with running(lab, SENDER, command, env=env) as client:
                return self._figures(json_output(client, "iperf3", self._seconds + PATIENCE_S))

    def _protocol_options(self) -> list[str]:
        return ["-u", "-b", "0", "-l", str(self._mtu)] if self.name == "udp" else []

    def _figures(self, document: dict[str, Any]) -> dict[str, Any]:
        try:
            end = document["end"]
            received, cpu = end["sum_received"], end["cpu_utilization_percent"]
            seconds = float(received["seconds"])
            percent = float(cpu["host_total"]) + float(cpu["remote_total"])
            figures: dict[str, Any] = {
                "goodput_gbps": float(received["bits_per_second"]) / 1e9,
                "cpu_seconds": percent / 100 * seconds,
            }
            if self.name == "udp":
                # Datagrams that arrived; nothing is ever sent twice.
                figures |= {"kpps": float(received["bytes"]) / self._mtu / seconds / 1e3, "retransmitted_packets": 0}
                figures["lost_packets"] = int(received["lost_packets"])
            else:
                # Segments are the kernel's business; what it sent again it tells.
                figures |= {"kpps": None, "retransmitted_packets": end["sum_sent"].get("retransmits")}
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            raise PeerError("iperf3 tells its results in a form this release does not know") from None
        return figures
