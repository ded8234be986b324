# SPDX-License-Identifier: BSD-2-Clause
"""A download over ngtcp2, QUIC in C: the example client and server that Debian packages."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrc.bench.baselines.sized import Sized, Sizing
from mrc.bench.processes import SCRATCH, children_cpu_seconds, find_program, wait_until_bound
from mrc.bench.settings import Settings
from mrc.bench.stall import received_bytes
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.child import Child
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.lab.scratch import scratch_directory

_WHO = "the baseline ngtcp2"
_IPV6_AND_UDP = 40 + 8
_PORT = 4433
# Asked for again and again over one connection; sparse, so that it takes no room.
_FILE, _FILE_BYTES = "data", 16 << 20
_ENDLESS = 1_000_000  # requests


class Ngtcp2:
    """`gtlsserver` on the sender, `gtlsclient` on the receiver, datagrams as large as the lab's MTU takes.

    The client takes one file of 16 MiB as often as fills the time, and throws it away. Time is the client's, from its
    start to its end; it reports no figures itself.
    """

    name = "ngtcp2"

    def __init__(self, seconds: float, loss: float) -> None:
        self.loss = loss
        self._seconds = seconds
        self._requests = Sizing(2, seconds)

    def check(self) -> None:
        for program, package in (("gtlsserver", "ngtcp2-server"), ("gtlsclient", "ngtcp2-client")):
            find_program(program, _WHO, package)

    def prepare(self, lab: Lab) -> None:
        """Nothing: the lab routes plain IPv6."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        return self._requests.run(lambda count: self._measure(lab, count))

    def _measure(self, lab: Lab, count: int) -> Sized:
        arrived_before, cpu_before = received_bytes(lab), children_cpu_seconds()
        with self._serving(lab) as scratch:
            began = time.monotonic()
            with self._client(lab, scratch, count) as client:
                client.rest(PATIENCE_S + 20 * self._seconds)
            seconds = time.monotonic() - began
        length = count * _FILE_BYTES
        # It ends well after errors, too.
        if received_bytes(lab) - arrived_before < length:
            raise PeerError(f"gtlsclient failed: {client.errors or f'not all of {length} bytes arrived'}")
        cpu_seconds = children_cpu_seconds() - cpu_before
        figures = {
            "goodput_gbps": length * 8 / seconds / 1e9,
            "kpps": None,
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_per_gb": cpu_seconds / length * 1e9,
            "retransmitted_packets": None,
        }
        return Sized(seconds, figures)

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        with self._serving(lab) as scratch, self._client(lab, scratch, _ENDLESS):
            yield

    @contextmanager
    def _serving(self, lab: Lab) -> Iterator[Path]:
        """The server, and its folder."""
        from mrc.net.exchange.tls import self_signed

        with scratch_directory(SCRATCH) as scratch:
            certificate, key = self_signed()
            (scratch / "certificate.pem").write_bytes(certificate)
            (scratch / "key.pem").write_bytes(key)
            with (scratch / _FILE).open("wb") as file:
                file.truncate(_FILE_BYTES)
            command = [find_program("gtlsserver", _WHO, "ngtcp2-server"), "--quiet", f"--htdocs={scratch}"]
            command += [self._largest_datagram(lab), lab.addresses(SENDER)[0], str(_PORT)]
            command += [str(scratch / "key.pem"), str(scratch / "certificate.pem")]
            with start_on(lab, SENDER, "gtlsserver", command, stdout=subprocess.DEVNULL) as server:
                wait_until_bound(server, "udp6", _PORT)
                yield scratch

    def _client(self, lab: Lab, scratch: Path, requests: int) -> Child:
        address = lab.addresses(SENDER)[0]
        command = [find_program("gtlsclient", _WHO, "ngtcp2-client"), "--quiet", "--no-quic-dump", "--no-http-dump"]
        command += ["--exit-on-all-streams-close", f"--nstreams={requests}", self._largest_datagram(lab)]
        command += [address, str(_PORT), f"https://[{address}]:{_PORT}/{_FILE}"]
        return start_on(lab, RECEIVER, "gtlsclient", command)

    @staticmethod
    def _largest_datagram(lab: Lab) -> str:
        return f"--max-udp-payload-size={lab.topology.mtu - _IPV6_AND_UDP}"


def make(name: str, settings: Settings) -> Ngtcp2:
    return Ngtcp2(settings.seconds, settings.loss)
