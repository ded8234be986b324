# SPDX-License-Identifier: BSD-2-Clause
"""A bulk stream over aioquic: the QUIC one gets in Python."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from mrc.bench.processes import SCRATCH
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER, STREAM_S, cpu_seconds_per_gb
from mrc.child import Child, python
from mrc.errors import PeerError, SystemRefused
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.lab.scratch import scratch_directory

_PROGRAM = "mrc.bench.baselines.quic_stream"
_IPV6_AND_UDP = 40 + 8


class Aioquic:
    """A server and a client of our own for each run, datagrams as large as the lab's MTU takes."""

    name = "aioquic"

    def __init__(self, seconds: float, loss: float) -> None:
        self.loss = loss
        self._seconds = seconds

    def check(self) -> None:
        if find_spec("aioquic") is None:
            raise SystemRefused(
                errno.ENOENT, "the baseline aioquic needs the Python package aioquic: pip install 'softmrc[bench]'"
            )

    def prepare(self, lab: Lab) -> None:
        """Nothing: the lab routes plain IPv6."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        with self._started(lab, self._seconds) as client:
            figures = client.outcome(self._seconds + PATIENCE_S + 10)
        try:
            seconds = float(figures["seconds"])
            goodput_gbps = figures["bytes"] * 8 / seconds / 1e9
            cpu_seconds = figures["cpu_seconds"] + figures["sender_cpu_seconds"]
            return {
                "goodput_gbps": goodput_gbps,
                "kpps": figures["datagrams"] / seconds / 1e3,
                "cpu_seconds": cpu_seconds,
                "cpu_seconds_per_gb": cpu_seconds_per_gb(cpu_seconds, goodput_gbps, seconds),
                # aioquic does not count them.
                "retransmitted_packets": None,
            }
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            raise PeerError("the aioquic client reports its results in a form this release does not know") from None

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        with self._started(lab, STREAM_S):
            yield

    @staticmethod
    @contextmanager
    def _started(lab: Lab, seconds: float) -> Iterator[Child]:
        """The client; the server is there as long."""
        address = lab.addresses(RECEIVER)[0]
        datagram = lab.topology.mtu - _IPV6_AND_UDP
        with scratch_directory(SCRATCH) as scratch:
            certificate = scratch / "certificate.pem"
            certificate.write_bytes(_certificate())
            serving = python(_PROGRAM, "serve", address, str(certificate))
            with start_on(lab, RECEIVER, "the aioquic server", serving) as server:
                sending = python(_PROGRAM, "send", address, server.started(), str(seconds), str(datagram))
                with start_on(lab, SENDER, "the aioquic client", sending) as client:
                    yield client


def make(name: str, settings: Settings) -> Aioquic:
    return Aioquic(settings.seconds, settings.loss)


def _certificate() -> bytes:
    """A certificate nobody checks, followed by its key, as PEM."""
    from mrc.net.exchange.tls import self_signed

    certificate, key = self_signed()
    return certificate + key
