# SPDX-License-Identifier: BSD-2-Clause
"""What is measured in a lab: MRC, MRC with something changed, or a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

from mrc.bench.settings import Settings
from mrc.child import START_TIMEOUT_S, Child, forked, python
from mrc.lab import Lab
from mrc.lab.children import start_on

SENDER, RECEIVER = "h0", "h1"
# What each throughput subject measures, and so what is compared.
THROUGHPUT_KEYS = (
    "goodput_gbps",
    "kpps",
    "cpu_seconds",
    "retransmitted_packets",
    "cpu_seconds_per_gb",
    "message_rate_mps",
    "per_qp_spread",
)
LATENCY_KEYS = ("t_min_us", "t_typical_us", "t_avg_us", "p99_us", "p999_us")
# How long a program may take beyond what it was asked to, before it is given up.
PATIENCE_S = 30.0
# How long a stream lasts when nobody ends it.
STREAM_S = 600


class Subject(Protocol):
    """Something that moves bytes from h0 to h1 of a lab."""

    @property
    def name(self) -> str: ...

    @property
    def loss(self) -> float:
        """The share every path is to lose while it runs."""

    def check(self) -> None:
        """Raises SystemRefused, with what to install, when something it needs is missing."""

    def prepare(self, lab: Lab) -> None:
        """Once, before the first round."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        """Once a round. Raises PeerError when it fails."""


class Streaming(Subject, Protocol):
    """A subject that can also be watched while it moves bytes."""

    def stream(self, lab: Lab) -> AbstractContextManager[None]:
        """Move bytes without a pause for as long as the block lasts, `STREAM_S` at most."""


def cpu_seconds_per_gb(cpu_seconds: float, goodput_gbps: float, seconds: float) -> float | None:
    """CPU seconds for 10^9 bytes that arrived; None when none did."""
    gigabytes = goodput_gbps * seconds / 8
    return cpu_seconds / gigabytes if gigabytes else None


class Mrc:
    """`mrc bench serve` on one host, `mrc bench write` or `latency` on the other, new processes each time.

    They are forks of this one, which imports what they need once.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings

    @property
    def loss(self) -> float:
        return self._settings.loss

    def check(self) -> None:
        """What it needs came with this package."""

    def prepare(self, lab: Lab) -> None:
        """Nothing: it runs on the fabric as it is."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        (figures,) = self.run_ways(lab, [(SENDER, RECEIVER)])
        return figures

    def run_ways(self, lab: Lab, ways: Sequence[tuple[str, str]]) -> list[Mapping[str, Any]]:
        """Measure from each sender to its receiver, all at once. Raises PeerError."""
        settings = self._settings
        with ExitStack() as stack:
            tickets = [stack.enter_context(_serving(lab, receiver)) for _, receiver in ways]
            clients = [
                stack.enter_context(_measuring(lab, sender, ticket, settings))
                for (sender, _), ticket in zip(ways, tickets, strict=True)
            ]
            patience_s = START_TIMEOUT_S + PATIENCE_S + settings.seconds + settings.idle_qps * 0.1
            return [client.outcome(patience_s) for client in clients]

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        settings = self._settings.changed(seconds=float(STREAM_S))
        with _serving(lab, RECEIVER) as ticket, _measuring(lab, SENDER, ticket, settings):
            yield


@contextmanager
def _serving(lab: Lab, host: str) -> Iterator[str]:
    """`mrc bench serve` on a host; gives its ticket."""
    import mrc.bench.server  # noqa: F401 - for all forks
    from mrc.net.forks import import_for_endpoints

    import_for_endpoints()
    with start_on(lab, host, "mrc bench serve", python("mrc", "bench", "serve"), start=forked) as server:
        yield server.started()


def _measuring(lab: Lab, host: str, ticket: str, settings: Settings) -> Child:
    """The client of a server on a host."""
    import mrc.bench.client  # noqa: F401 - for all forks

    command = python("mrc", "bench", settings.test, ticket, *settings.arguments(), "--json")
    return start_on(lab, host, f"mrc bench {settings.test}", command, start=forked)
