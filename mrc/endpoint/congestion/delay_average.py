# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How the queueing delay is averaged: implementation-defined in NSCC, so a part one can replace."""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.wire.compiled import Subclassed, python

DEFAULT_WEIGHT = 1 / 8


class DelayAverage(Subclassed):
    """`value` is the average queueing delay, in the unit of the controller's time (ns). It starts at 0.

    One is a subclass, in Python or compiled, that has `on_delay`, `on_trimmed` and `without_sample`.
    """

    value: int

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.value = 0

    def on_delay(self, delay: int, *, marked: bool, target: int, base_rtt: int) -> python[None]:
        """An acknowledgement brought a valid sample: rtt - base_rtt. `marked` is its ECN verdict."""
        raise NotImplementedError

    def on_trimmed(self) -> python[None]:
        """A NACK reported a trimmed packet, which has no delay of its own."""
        raise NotImplementedError

    def without_sample(self) -> python[int | None]:
        """The delay an acknowledgement without a valid sample counts with; None: it says nothing about the delay."""
        raise NotImplementedError


class EwmaDelay(DelayAverage):
    """An exponentially weighted moving average of the samples and of nothing else, truncated to whole units.

    `weight` is what a sample counts, above 0 and at most 1. An eighth forgets within eight acknowledgements. Raises
    CallerError.
    """

    _weight: float

    __slots__ = tuple(__annotations__)

    def __init__(self, weight: float = DEFAULT_WEIGHT) -> None:
        super().__init__()
        if not 0 < weight <= 1:
            raise CallerError(f"the weight of a delay sample must be above 0 and at most 1, got {weight}")
        self._weight = weight

    def on_delay(self, delay: int, *, marked: bool, target: int, base_rtt: int) -> python[None]:
        self.update(delay)

    def update(self, delay: int) -> None:
        """A valid sample, of which nothing else counts."""
        self.value = int(self._weight * delay + (1 - self._weight) * self.value)

    def on_trimmed(self) -> python[None]:
        """A packet that was cut short measured nothing."""

    def without_sample(self) -> python[int | None]:
        return None
