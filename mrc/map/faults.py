# SPDX-License-Identifier: BSD-2-Clause
"""What the map finds: faults and suspicions, and by what measure."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc.map.components import Component

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class InferenceConfig:
    """Times in seconds, evidence in natural logarithms of odds.

    `starts_s`: how long ago a fault may have begun, as tried. `margin`: how much better the best explanation with a
    part is than the best without, before the part is accused. `recovery`: how much better "it is well again" is than
    "it is as it was" before a fault is over. `rate_window_s`: over which loss rates are computed; what lost nothing for
    so long is not accused. `least_loss`: a part that loses less than this share, by the lower end of the interval, is
    not accused.
    """

    starts_s: tuple[float, ...] = (0.3, 0.6, 1.0, 1.6, 2.5, 4.0, 6.0, 10.0, 16.0, 26.0, 40.0, 64.0)
    margin: float = 7.0
    recovery: float = 12.0
    rate_window_s: float = 30.0
    least_loss: float = 0.001
    challenge_every_s: float = 1.0

    @property
    def memory_ns(self) -> int:
        return round(max(self.starts_s) * SECOND)


DEFAULT_INFERENCE = InferenceConfig()


@dataclass(frozen=True, slots=True)
class Loss:
    """Share of the packets that are lost, and between which shares it lies with 95 %."""

    rate: float
    low: float
    high: float


@dataclass(slots=True)
class Fault:
    """A part that loses packets. Times are those of the probes' clock, in nanoseconds.

    `since_ns`: when the first lost probe was sent. `named_ns`: when it was accused. `until_ns`: when the first probe
    that showed it well again was sent, None while it is not. `withdrawn`: it was not this part after all. `toward`:
    the ends that packets lost travel toward, for a cable; empty where that is not settled, or for other parts.
    `also`: parts that no loop can distinguish from it. `loss` is per passage; for a host's port it is that of the way
    up and down again.
    """

    component: Component
    also: tuple[str, ...]
    since_ns: int
    named_ns: int
    loss: Loss
    toward: tuple[str, ...] = ()
    until_ns: int | None = None
    withdrawn: bool = False
    weights: dict[str | None, float] = field(default_factory=dict)
    last_loss_ns: int = 0
    doubt_ns: int = 0

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def is_down(self) -> bool:
        return self.loss.rate >= 0.95


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Losses with more than one explanation about as good: one of `names` is at fault."""

    names: tuple[str, ...]
    since_ns: int
