# SPDX-License-Identifier: BSD-2-Clause
"""A session in virtual time: for endpoints that own no clock and no sockets."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager

from mrc.conformance.target import Frame, Session, TargetCrashed

__all__ = ["VirtualSession", "endpoint_at_work"]

_START_NS = 1_000_000
# An endpoint that sends without end, or whose timer never lets time go on, ends a case and not the run.
_MOST_FRAMES_AT_ONCE = 20_000
_MOST_TIMERS_AT_ONCE = 1_000


class _AtWork:
    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if isinstance(error, Exception):
            raise TargetCrashed(f"it raised {type(error).__name__}: {error}") from error


_AT_WORK = _AtWork()


def endpoint_at_work() -> AbstractContextManager[None]:
    """Take what is raised in here for a crash of the endpoint under test. Raises TargetCrashed."""
    return _AT_WORK


class VirtualSession(Session):
    """Time stands still while the target works and goes from timer to timer while it waits.

    An adapter gives it the four entries of an endpoint without I/O: `deliver`, `collect`, `next_deadline`, `on_timer`.
    """

    def __init__(self) -> None:
        self._now = _START_NS
        self._out: deque[Frame] = deque()
        self._hold_ns = 0
        self._held_until: int | None = None
        self._timers_here = 0

    @property
    def now(self) -> int:
        return self._now

    @abstractmethod
    def deliver(self, frames: Sequence[Frame], now: int) -> None:
        """The target receives these at once."""

    @abstractmethod
    def collect(self, now: int) -> Sequence[Frame]:
        """Everything the target sends now."""

    @abstractmethod
    def next_deadline(self) -> int | None:
        """When the target's next timer is due, ns."""

    @abstractmethod
    def on_timer(self, now: int) -> None:
        """Run the timers that are due."""

    def close(self) -> None:
        return

    def hold(self, duration: int) -> None:
        self._hold_ns = duration

    def put(self, frames: Sequence[Frame]) -> None:
        self.deliver(frames, self._now)
        if self._hold_ns:
            self._held_until = self._now + self._hold_ns
        else:
            self.stir()

    def stir(self) -> None:
        """Something happened to the target: take what it sends now."""
        if self._held_until is None:
            self._out.extend(self.collect(self._now))
            if len(self._out) > _MOST_FRAMES_AT_ONCE:
                raise TargetCrashed(f"it sent {len(self._out)} packets at one instant")

    def get(self, until: int) -> Sequence[Frame]:
        while True:
            if self._out:
                found = list(self._out)
                self._out.clear()
                return found
            due = min((each for each in (self.next_deadline(), self._held_until) if each is not None), default=None)
            if due is None or due > until:
                self._now = max(self._now, until)
                return ()
            self._go_to(due)
            if self._held_until is not None and self._now >= self._held_until:
                self._held_until = None
            else:
                self.on_timer(self._now)
            self.stir()

    def _go_to(self, when: int) -> None:
        if when > self._now:
            self._now = when
            self._timers_here = 0
            return
        self._timers_here += 1
        if self._timers_here > _MOST_TIMERS_AT_ONCE:
            raise TargetCrashed("its timer is due again and again at one instant")
