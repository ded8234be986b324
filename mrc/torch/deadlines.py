"""How long operations may take: torch's timeouts, also for those that nobody waits for yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# How many may be kept that are done, beside as many as were under way.
_KEPT = 64


class Timed(Protocol):
    """An operation under way; `deadline` is of time.monotonic."""

    deadline: float

    def is_completed(self) -> bool: ...


class Deadlines:
    """All operations of a group under way. A thread of its own calls `expired` with one that is not done in time.

    Nobody says when one is done: that would cost each of them a call where packets wait. Those done are dropped here
    when others come.
    """

    def __init__(self, expired: Callable[[Timed], None], name: str) -> None:
        self._expired = expired
        self._known: deque[Timed] = deque()
        self._most = _KEPT
        self._changed = threading.Condition()
        self._look_at: float | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, operation: Timed) -> None:
        known = self._known
        with self._changed:
            while known and known[0].is_completed():
                known.popleft()
            known.append(operation)
            if len(known) > self._most:
                self._drop_done()
            if self._look_at is None or operation.deadline < self._look_at:
                self._changed.notify()

    @property
    def under_way(self) -> int:
        with self._changed:
            self._drop_done()
            return len(self._known)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _drop_done(self) -> None:
        left = [operation for operation in self._known if not operation.is_completed()]
        self._known.clear()
        self._known.extend(left)
        self._most = 2 * len(left) + _KEPT

    def _run(self) -> None:
        while True:
            late = self._next_late()
            if late is None:
                return
            self._expired(late)

    def _next_late(self) -> Timed | None:
        """Waits for one. None once closed."""
        with self._changed:
            while not self._closed:
                # Later operations have later deadlines, mostly: so this looks again about once in a timeout.
                self._drop_done()
                first = min(self._known, key=lambda operation: operation.deadline, default=None)
                now = time.monotonic()
                if first is not None and first.deadline <= now:
                    self._known.remove(first)
                    return first
                self._look_at = first.deadline if first else None
                self._changed.wait(None if first is None else first.deadline - now)
            return None
