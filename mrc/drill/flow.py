# SPDX-License-Identifier: BSD-2-Clause
"""One flow of a drill: a QP from one host to another that writes as fast as it may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mrc.errors import CallerError

BASE_RTT_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What both ends must know of a flow before it begins.

    `evs` are the EVs it may use, none: all there are; `active` how many of them carry data at once, the rest being the
    reserve, None: all. `size` is that of a write and `depth` how many are outstanding, so size x depth bounds what is
    in flight. Both ends pause for `pause_ns` between two turns, and the target is sampled at each. The rest are NSCC's
    parameters: line rate, the base RTT it is configured with, whether links trim, and its largest window.
    """

    name: str
    source: str
    target: str
    seed: int
    evs: tuple[int, ...] = ()
    active: int | None = None
    size: int = 64 * 1024
    depth: int = 32
    path_mtu: int = 4096
    pause_ns: int = 1_000_000
    line_rate_bps: int = 100_000_000
    base_rtt_ns: int = BASE_RTT_NS
    trimming: bool = False
    max_cwnd_packets: int = 64

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise CallerError(f"flow {self.name}: {self.source} would write to itself")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> FlowPlan:
        return cls(**{**document, "evs": tuple(document["evs"])})
