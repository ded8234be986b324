# SPDX-License-Identifier: BSD-2-Clause
"""A network as NSCC is configured with it, and what follows from it by the table of nscc.md, Defaults."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import sqrt

from mrc.conformance.case import Script
from mrc.conformance.script import case, us


@dataclass(frozen=True, slots=True)
class Network:
    """Line rate in Gbit/s and base RTT in ns. Windows are bytes of nominal packet size (UDP length + 40), times ns."""

    gbps: float = 40
    base_rtt: int = us(12)
    trimming: bool = False

    def options(self, **more: int | str) -> dict[str, int | str]:
        """The target's settings for it."""
        rate = round(self.gbps * 1_000_000_000)
        network = {"base_rtt_ns": self.base_rtt, "line_rate_bps": rate, "trimming": int(self.trimming)}
        return {"controller": "nscc", **network, **more}

    def case(
        self,
        case_id: str,
        *,
        look_at: str,
        agreed: Collection[str] = (),
        without: Collection[str] = (),
        connections: int = 1,
        **more: int | str,
    ) -> Callable[[Script], Script]:
        """Make a function a case in this network, with packets of 1024 bytes; `more` are settings of the target."""
        return case(
            case_id,
            look_at=look_at,
            path_mtu=1024,
            options=self.options(**more),
            agreed=agreed,
            without=without,
            connections=connections,
        )

    @property
    def bdp(self) -> float:
        return self.gbps * self.base_rtt / 8

    @property
    def max_cwnd(self) -> float:
        return 1.5 * self.bdp

    @property
    def a(self) -> float:
        return self.bdp / 150_000

    @property
    def b(self) -> float:
        return self.target / us(12)

    @property
    def target(self) -> int:
        return self.base_rtt * 3 // 4 if self.trimming else self.base_rtt

    @property
    def interval(self) -> int:
        """After which quick adapt judges."""
        return self.base_rtt + self.target

    def fi(self, mss: int) -> float:
        return 5 * mss * self.a

    @property
    def fi_scale(self) -> float:
        return 0.25 * self.a

    def eta(self, mss: int) -> float:
        return 0.15 * mss * self.a

    def alpha(self, mss: int) -> float:
        """Bytes per ns."""
        return 4 * self.a * self.b * mss / self.target

    def proportional(self, mss: int, delay: int) -> float:
        """What `inc` grows by for each byte acknowledged with this delay below target."""
        return self.alpha(mss) * (self.target - delay)


def grown(cwnd: float, acked: int, inc_per_byte: float) -> float:
    """What a window becomes that grows by inc / cwnd, where `inc` grows by `inc_per_byte` for each byte acknowledged,
    however often it is fulfilled: d cwnd = inc_per_byte / cwnd x d acked."""
    return sqrt(cwnd * cwnd + 2 * inc_per_byte * acked)
