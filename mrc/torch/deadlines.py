# SPDX-License-Identifier: BSD-2-Clause
"""How long operations may take: torch's timeouts, also for those that nobody waits for yet."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Protocol

from mrc.threads import start_thread

# How many may be kept that are done, beside as many as were under way.
_KEPT = 64


class Timed(Protocol):
    """An operation under way; `deadline` is of time.monotonic."""

    deadline: float

    @property
    def works_done(self) -> bool:
        """Whether it has ended."""

    def expire(self) -> None:
        """It is not done in time. Raises nothing."""


class Deadlines:
    """All operations of a process under way. A thread of its own tells those that are not done in time.

    Nobody says when one is done: that would cost each of them a call where packets wait. Those done are dropped here
    when others come.
    """

    def __init__(self) -> None:
        self._known: deque[Timed] = deque()
        self._most = _KEPT
        self._changed = threading.Condition()
        self._look_at: float | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Have the thread that looks after them. Raises SystemRefused where there is none to be had."""
        with self._changed:
            if self._thread is None:
                self._start()

    def add(self, operation: Timed) -> None:
        """Take one that is under way, after `begin`."""
        known = self._known
        with self._changed:
            while known and known[0].works_done:
                known.popleft()
            known.append(operation)
            if len(known) > self._most:
                self._drop_done()
            if self._look_at is None or operation.deadline < self._look_at:
                self._changed.notify()

    def _start(self) -> None:
        self._thread = start_thread(self._run, name="mrc torch deadlines")

    def _drop_done(self) -> None:
        left = [operation for operation in self._known if not operation.works_done]
        self._known.clear()
        self._known.extend(left)
        self._most = 2 * len(left) + _KEPT

    def _run(self) -> None:
        while True:
            self._next_late().expire()

    def _next_late(self) -> Timed:
        """Waits for one."""
        with self._changed:
            while True:
                # Later operations have later deadlines, mostly: so this looks again about once in a timeout.
                self._drop_done()
                first = min(self._known, key=lambda operation: operation.deadline, default=None)
                now = time.monotonic()
                if first is not None and first.deadline <= now:
                    self._known.remove(first)
                    return first
                self._look_at = first.deadline if first else None
                self._changed.wait(None if first is None else first.deadline - now)


def _after_fork() -> None:
    global deadlines
    deadlines = Deadlines()


# Those of this process.
deadlines = Deadlines()
os.register_at_fork(after_in_child=_after_fork)
