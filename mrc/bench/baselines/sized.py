# SPDX-License-Identifier: BSD-2-Clause
"""Programs that are given an amount, not a time: how much is enough is found by doing more each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# How much more than before is tried at once: a first small amount says little about speed.
_MOST_AT_ONCE = 16
_AIM = 1.1  # of the time that was asked for
_ENOUGH = 0.6  # of it: more costs a second run and adds nothing


@dataclass(frozen=True, slots=True)
class Sized:
    """One run: how long it took, and its figures."""

    seconds: float
    figures: Mapping[str, Any]


class Sizing:
    """Remembers from run to run how much is enough for `seconds`, beginning with `first`."""

    def __init__(self, first: int, seconds: float) -> None:
        self._amount = first
        self._seconds = seconds

    def run(self, measure: Callable[[int], Sized]) -> Mapping[str, Any]:
        """The figures of the first run that took about long enough; `measure(amount)` makes one."""
        while True:
            done = measure(self._amount)
            wanted = self._amount * self._seconds * _AIM / done.seconds if done.seconds else float("inf")
            enough = done.seconds >= self._seconds * _ENOUGH
            self._amount = max(1, int(min(wanted, self._amount * _MOST_AT_ONCE)))
            if enough:
                return done.figures
            self._amount = max(self._amount, 2)
