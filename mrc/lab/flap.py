# SPDX-License-Identifier: BSD-2-Clause
"""A link that goes down and up in turn, on a schedule that does not drift.

Every change has its moment from the beginning on: the k-th cut is due k periods after the first, its heal a share of
the period later. A late change delays no other. A cycle whose time is over before it could begin (the machine, or this
process, stood still) is left out and counted, so that what was missed does not come in a burst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mrc.errors import CallerError
from mrc.fabric import Link
from mrc.trace.vocabulary import FLAP_END, FLAP_START, EventType

# A heal takes some milliseconds: what is shorter is no state that anything could notice.
LEAST_PHASE_S = 0.01
MOST_PERIOD_S = 86_400.0
DONE, STOPPED, FAILED = "done", "stopped", "failed"


class Cables(Protocol):
    """A Lab, as far as its links are concerned."""

    def prepare(self, *targets: str) -> tuple[Link, ...]: ...
    def cut(self, *targets: str) -> int: ...
    def heal(self, *targets: str) -> int: ...
    def record(self, kind: EventType, target: str, links: Iterable[Link], at_ns: int, **details: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Flapped:
    """One change: cycle `cycle` (from 1) of `count` is down or up now, `late_ns` after its moment."""

    cycle: int
    count: int
    down: bool
    at_monotonic_ns: int
    late_ns: int


@dataclass(frozen=True, slots=True)
class FlapResult:
    """How it went: cycles made and left out, the latest change, and why it ended, "done" or "stopped"."""

    cycles: int
    left_out: int
    latest_ns: int
    ended: str


@dataclass(frozen=True, slots=True)
class Flapping:
    """`count` (1 and more) times down for the share `duty` (between 0 and 1) of `period_s` seconds, then up again.

    Down and up take 10 ms at least, and a period a day at most. Raises CallerError outside these.
    """

    period_s: float = 2.0
    count: int = 5
    duty: float = 0.5

    def __post_init__(self) -> None:
        if self.count < 1:
            raise CallerError(f"a count must be 1 or more, got {self.count}")
        if not 0 < self.duty < 1:
            raise CallerError(f"a duty must be between 0% and 100%, got {self.duty * 100:g}%")
        if not self.period_s <= MOST_PERIOD_S:
            raise CallerError(f"a period must be at most a day, got {self.period_s:g} s")
        shorter = self.period_s * min(self.duty, 1 - self.duty)
        # A billionth of slack for what a share of seconds is as a binary number.
        if shorter < LEAST_PHASE_S * (1 - 1e-9):
            raise CallerError(
                f"each must last {LEAST_PHASE_S * 1e3:.0f} ms or more, down and up: with {self.period_s:g} s and "
                f"{self.duty * 100:g}% the shorter takes {shorter * 1e3:g} ms"
            )

    @property
    def period_ns(self) -> int:
        return round(self.period_s * 1e9)

    @property
    def down_ns(self) -> int:
        return round(self.period_s * self.duty * 1e9)

    def run(
        self,
        lab: Cables,
        targets: Sequence[str],
        wait: Callable[[float], object] | None = None,
        on_change: Callable[[Flapped], object] | None = None,
    ) -> FlapResult:
        """Cut and heal `targets` (as `Lab.cut` takes them); they are healed when this ends, whatever ends it.

        `wait(seconds)` sleeps, and what it returns stops the flapping if it is true: `threading.Event().wait` is one.
        `on_change` is called with each change. Raises CallerError, and SystemRefused: also when the lab was taken down
        meanwhile.
        """
        wait = wait or time.sleep
        links = lab.prepare(*targets)
        name = " ".join(targets)
        schedule = {"period_s": self.period_s, "count": self.count, "duty": self.duty}
        began = time.monotonic_ns()
        lab.record(FLAP_START, name, links, began, **schedule)
        run = _Run(self, lab, targets, began, on_change)
        ended = FAILED
        try:
            ended = DONE if run.cycles_until_stopped(wait) else STOPPED
        finally:
            try:
                run.mend()
            finally:
                details = {"cycles": run.cycles, "left_out": run.left_out, "latest_ns": run.latest_ns, "ended": ended}
                lab.record(FLAP_END, name, links, time.monotonic_ns(), **details)
        return FlapResult(run.cycles, run.left_out, run.latest_ns, ended)


class _Run:
    """One run of a schedule that began at `began`."""

    def __init__(
        self,
        plan: Flapping,
        lab: Cables,
        targets: Sequence[str],
        began: int,
        on_change: Callable[[Flapped], object] | None,
    ) -> None:
        self._plan, self._lab, self._targets, self._began, self._on_change = plan, lab, targets, began, on_change
        self._down = False
        self.cycles = self.left_out = self.latest_ns = 0

    def cycles_until_stopped(self, wait: Callable[[float], object]) -> bool:
        """Whether it came to its end, which is the last heal."""
        plan = self._plan
        for cycle in range(1, plan.count + 1):
            begins = self._began + (cycle - 1) * plan.period_ns
            if self._sleep_until(begins, wait):
                return False
            if time.monotonic_ns() >= begins + plan.down_ns:
                self.left_out += 1
                continue
            self._down = True
            self._say(cycle, True, begins, self._lab.cut(*self._targets))
            if self._sleep_until(begins + plan.down_ns, wait):
                return False
            healed = self._lab.heal(*self._targets)
            self._down = False
            self.cycles += 1
            self._say(cycle, False, begins + plan.down_ns, healed)
        return True

    def mend(self) -> None:
        """Heal what is down."""
        if self._down:
            self._lab.heal(*self._targets)
            self._down = False

    def _sleep_until(self, moment: int, wait: Callable[[float], object]) -> bool:
        """Whether `wait` said to stop. Asks it once even when the moment has passed."""
        while True:
            left = moment - time.monotonic_ns()
            if wait(max(0.0, left / 1e9)):
                return True
            if time.monotonic_ns() >= moment:
                return False

    def _say(self, cycle: int, down: bool, due: int, at: int) -> None:
        self.latest_ns = max(self.latest_ns, at - due)
        if self._on_change is not None:
            self._on_change(Flapped(cycle, self._plan.count, down, at, at - due))
