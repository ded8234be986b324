# SPDX-License-Identifier: BSD-2-Clause
"""UCX over TCP: the messaging library under MPI, measured by its own `ucx_perftest`."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mrc.bench.baselines.sized import Sized, Sizing
from mrc.bench.processes import children_cpu_seconds, find_program, wait_until_bound
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.child import Child
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on

_WHO = "the baseline ucx"
_PORT = 13337  # its own
# UCX looks for its devices in /sys, where a namespace of the lab still sees those of the place it was made in.
_WITH_OWN_DEVICES = ("unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
# Sleeping while there is nothing to do: on two processors, polling takes from the other end what it needs.
_WAITING = ("-E", "sleep")
_ENDLESS = 1_000_000_000  # messages
_WARM_UP = 10
_SMALL = 4096


class Ucx:
    """Tagged messages of `size` bytes from the plane 0 of one host to that of the other; or their ping-pong."""

    name = "ucx"

    def __init__(self, size: int, seconds: float, loss: float, *, latency: bool = False) -> None:
        self.loss = loss
        self._size = size
        self._seconds = seconds
        self._latency = latency
        self._messages = Sizing(5000 if size <= _SMALL else 20, seconds)

    def check(self) -> None:
        find_program("ucx_perftest", _WHO, "ucx-utils")
        find_program("unshare", _WHO, "util-linux")

    def prepare(self, lab: Lab) -> None:
        """Nothing: the lab routes plain IPv6."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        return self._messages.run(lambda count: self._measure(lab, count))

    def _measure(self, lab: Lab, count: int) -> Sized:
        cpu_before = children_cpu_seconds()
        with self._started(lab, count) as client:
            out = client.rest(PATIENCE_S + 20 * self._seconds, None)
        if client.status() != 0:
            # Its log goes to its output.
            said = out.strip().splitlines() or [client.why()]
            raise PeerError(f"ucx_perftest failed: {said[-1]}")
        row = read_row(out)
        seconds = row["iterations"] * row["overall_lat"] / 1e6
        if self._latency:
            # It reports one percentile a run.
            return Sized(seconds, {"t_typical_us": row["50.0_percentile_lat"], "t_avg_us": row["overall_lat"]})
        cpu_seconds, length = children_cpu_seconds() - cpu_before, row["iterations"] * self._size
        figures = {
            "goodput_gbps": length * 8 / seconds / 1e9,
            "kpps": None,
            "message_rate_mps": row["iterations"] / seconds,
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_per_gb": cpu_seconds / length * 1e9,
            "retransmitted_packets": None,
        }
        return Sized(seconds, figures)

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        with self._started(lab, _ENDLESS):
            yield

    @contextmanager
    def _started(self, lab: Lab, count: int) -> Iterator[Child]:
        """The client, with `count` messages to send; the server is there as long."""
        program = [*_WITH_OWN_DEVICES, find_program("ucx_perftest", _WHO, "ucx-utils")]
        env = {**os.environ, "UCX_TLS": "tcp", "UCX_NET_DEVICES": "p0", "UCX_TCP_AF_PRIO": "inet6"}
        with start_on(lab, RECEIVER, "ucx_perftest", [*program, "-6", *_WAITING], env) as server:
            wait_until_bound(server, "tcp6", _PORT)
            test = ["-t", "tag_lat" if self._latency else "tag_bw", "-s", str(self._size), "-n", str(count)]
            telling = ["-w", str(_WARM_UP), "-f", "-v"]
            command = [*program, lab.addresses(RECEIVER)[0], "-6", *test, *telling, *_WAITING]
            with start_on(lab, SENDER, "ucx_perftest", command, env) as client:
                yield client


def read_row(out: str) -> dict[str, float]:
    """The only row of `ucx_perftest -f -v`, by its headings. Raises PeerError when it prints something else."""
    rows = list(csv.reader(line for line in out.splitlines() if "," in line))
    try:
        headings, cells = rows
        row = {name: float(cell) for name, cell in zip(headings, cells, strict=True)}
        if row["iterations"] > 0 and row["overall_lat"] > 0 and row["50.0_percentile_lat"] >= 0:
            return row
    except (KeyError, ValueError):
        pass
    raise PeerError("ucx_perftest reports its results in a form this release does not know")


def make(name: str, settings: Settings) -> Ucx:
    return Ucx(settings.size, settings.seconds, settings.loss, latency=settings.latency)
