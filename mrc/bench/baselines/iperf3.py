# SPDX-License-Identifier: BSD-2-Clause
"""iperf3 between the plain IPv6 addresses of two hosts: UDP without limit, TCP, and TCP over the kernel's MPTCP."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mrc.bench.processes import find_program
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER, STREAM_S, cpu_seconds_per_gb
from mrc.child import Child
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on

# With -u client and server greet each other with one datagram each, which a lossy path may lose.
_GREETING_LOST = "unable to read from stream socket"
_ATTEMPTS = 4


class Iperf3:
    """One iperf3 server for each run (`-s -1`) and one client. What counts is what was received.

    `name` is udp (`-u -b 0 -l LENGTH`: datagrams as large as the payload of MRC's packets, no limit, nothing sent
    twice), tcp, or that of a subclass.
    """

    def __init__(self, name: str, seconds: float, length: int, loss: float) -> None:
        self.name = name
        self.loss = loss
        # Whole seconds are all iperf3 knows, and 0 means for ever.
        self._seconds = max(1, math.ceil(seconds))
        self._length = length

    def check(self) -> None:
        find_program("iperf3", f"the baseline {self.name}", "iperf3")

    def prepare(self, lab: Lab) -> None:
        """Nothing: the lab routes plain IPv6."""

    def environment(self) -> dict[str, str] | None:
        """Of both programs; None: this process's."""
        return None

    def run(self, lab: Lab) -> Mapping[str, Any]:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._run(lab)
            except PeerError as error:
                if _GREETING_LOST not in str(error):
                    raise
        return self._run(lab)

    def _run(self, lab: Lab) -> Mapping[str, Any]:
        with self._started(lab, self._seconds) as client:
            return self._figures(client.outcome(self._seconds + PATIENCE_S))

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        with self._started(lab, STREAM_S):
            yield

    @contextmanager
    def _started(self, lab: Lab, seconds: int) -> Iterator[Child]:
        """The client; the server is there as long."""
        address = lab.addresses(RECEIVER)[0]
        env = self.environment()
        with start_on(lab, RECEIVER, "iperf3 -s", ["iperf3", "-s", "-1", "--forceflush"], env) as server:
            server.started("listening")
            command = ["iperf3", "-c", address, "-t", str(seconds), "-J", *self._protocol_options()]
            with start_on(lab, SENDER, "iperf3", command, env) as client:
                yield client

    def _protocol_options(self) -> list[str]:
        return ["-u", "-b", "0", "-l", str(self._length)] if self.name == "udp" else []

    def _figures(self, document: dict[str, Any]) -> dict[str, Any]:
        try:
            end = document["end"]
            received, cpu = end["sum_received"], end["cpu_utilization_percent"]
            seconds = float(received["seconds"])
            cpu_seconds = (float(cpu["host_total"]) + float(cpu["remote_total"])) / 100 * seconds
            goodput_gbps = float(received["bits_per_second"]) / 1e9
            figures: dict[str, Any] = {
                "goodput_gbps": goodput_gbps,
                "cpu_seconds": cpu_seconds,
                "cpu_seconds_per_gb": cpu_seconds_per_gb(cpu_seconds, goodput_gbps, seconds),
            }
            if self.name == "udp":
                # Datagrams that arrived; nothing is ever sent twice.
                arrived = float(received["bytes"]) / self._length / seconds
                figures |= {"kpps": arrived / 1e3, "message_rate_mps": arrived, "retransmitted_packets": 0}
                figures["lost_packets"] = int(received["lost_packets"])
            else:
                # Segments are the kernel's business; it reports what it sent again.
                figures |= {"kpps": None, "retransmitted_packets": end["sum_sent"].get("retransmits")}
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            raise PeerError("iperf3 reports its results in a form this release does not know") from None
        return figures


def make(name: str, settings: Settings) -> Iperf3:
    return Iperf3(name, settings.seconds, min(settings.size, settings.mtu), settings.loss)
