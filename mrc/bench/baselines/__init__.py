# SPDX-License-Identifier: BSD-2-Clause
"""What MRC is measured beside in a lab: one module and one entry of `BASELINES` each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from mrc.errors import CallerError

if TYPE_CHECKING:
    from mrc.bench.settings import Settings
    from mrc.bench.subject import Subject


@dataclass(frozen=True, slots=True)
class Baseline:
    """`module` of this package has `make(name, settings)`; `latency` is the one for half round trips, if it has any.

    `messages`: it sends messages of `Settings.size` and counts them. `cut`: it can be watched while a path is cut.
    """

    module: str
    latency: str | None = None
    messages: bool = False
    cut: bool = True


# Few imports at the top of this file: the command line reads it before it knows what is asked for.
BASELINES: Mapping[str, Baseline] = {
    "bare": Baseline("bare", cut=False),
    "udp": Baseline("iperf3", latency="udp_pingpong", messages=True),
    "tcp": Baseline("iperf3"),
    "tcp-no-offload": Baseline("no_offload"),
    "mptcp": Baseline("mptcp"),
    "aioquic": Baseline("quic"),
    "ngtcp2": Baseline("ngtcp2"),
    "ucx": Baseline("ucx", latency="ucx", messages=True),
}
LATENCY_BASELINES = tuple(name for name, baseline in BASELINES.items() if baseline.latency is not None)


def make_baseline(name: str, settings: Settings) -> Subject:
    """The baseline of this name for these settings. Raises CallerError for one there is not."""
    if name not in BASELINES:
        raise CallerError(f"there is no baseline {name!r}: there are {', '.join(BASELINES)}")
    baseline = BASELINES[name]
    module = baseline.latency if settings.latency else baseline.module
    if module is None:
        raise CallerError(f"--latency has the baselines {', '.join(LATENCY_BASELINES)}: {name!r} measures goodput")
    made: Subject = import_module(f"{__name__}.{module}").make(name, settings)
    return made
