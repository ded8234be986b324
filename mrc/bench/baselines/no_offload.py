# SPDX-License-Identifier: BSD-2-Clause
"""iperf3 over TCP while the hosts cut and join no segments: every packet passes the fabric for itself, as MRC's do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mrc.bench.baselines.iperf3 import Iperf3
from mrc.bench.processes import find_program
from mrc.bench.settings import Settings
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.errors import PeerError, SystemRefused
from mrc.lab import Lab
from mrc.lab.children import start_on
from mrc.untrusted import own_json

_WHO = "the baseline tcp-no-offload"
# What `ethtool -K` calls them, and what `ethtool -k` does.
_OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
}


class NoOffload(Iperf3):
    """Everything is put back after each run: the others of the round find the interfaces as they were."""

    def check(self) -> None:
        super().check()
        find_program("ethtool", _WHO, "ethtool")

    def run(self, lab: Lab) -> Mapping[str, Any]:
        with offloads_off(lab):
            return super().run(lab)

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        with offloads_off(lab), super().stream(lab):
            yield


@contextmanager
def offloads_off(lab: Lab) -> Iterator[None]:
    """Segmentation and receive offload of both hosts' interfaces are off; what was on is on again afterwards."""
    changed: list[tuple[str, str, list[str]]] = []
    try:
        for host in (SENDER, RECEIVER):
            for plane in range(lab.topology.planes):
                interface = f"p{plane}"
                were_on = offloads_on(_ethtool(lab, host, "--json", "-k", interface))
                changed.append((host, interface, were_on))
                _ethtool(lab, host, "-K", interface, *_all(were_on, "off"))
        yield
    finally:
        for host, interface, were_on in changed:
            _ethtool(lab, host, "-K", interface, *_all(were_on, "on"))


def offloads_on(output: str) -> list[str]:
    """Which of them are on, from what `ethtool --json -k` says. Raises PeerError for something else."""
    try:
        (features,) = own_json(output)
        return [name for name, feature in _OFFLOADS.items() if features[feature]["active"]]
    except (KeyError, TypeError, ValueError):
        raise PeerError("ethtool reports the offloads in a form this release does not know") from None


def _all(offloads: list[str], state: str) -> list[str]:
    return [word for name in offloads for word in (name, state)]


def _ethtool(lab: Lab, host: str, *arguments: str) -> str:
    program = find_program("ethtool", _WHO, "ethtool")
    with start_on(lab, host, "ethtool", [program, *arguments]) as child:
        out = child.rest(PATIENCE_S, None)
        if child.status() != 0:
            raise SystemRefused(f"ethtool {' '.join(arguments)} failed on {host}: {child.why()}")
    return out


def make(name: str, settings: Settings) -> NoOffload:
    return NoOffload(name, settings.seconds, settings.mtu, settings.loss)
