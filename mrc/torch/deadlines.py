"""How long operations may take: torch's timeouts, also for those that nobody waits for yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Timed(Protocol):
    """An operation under way; `deadline` is of time.monotonic."""

    deadline: float


class Deadlines:
    """All operations of a group under way. A thread of its own calls `expired` with one that is not done in time."""

    def __init__(self, expired: Callable[[Timed], None], name: str) -> None:
        self._expired = expired
        self._under_way: set[Timed] = set()
        self._changed = threading.Condition()
        self._look_at: float | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, operation: Timed) -> None:
        with self._changed:
            self._under_way.add(operation)
            if self._look_at is None or operation.deadline < self._look_at:
                self._changed.notify()

    def remove(self, operation: Timed) -> None:
        """It is done."""
        with self._changed:
            self._under_way.discard(operation)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

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
                first = min(self._under_way, key=lambda operation: operation.deadline, default=None)
                now = time.monotonic()
                if first is not None and first.deadline <= now:
                    self._under_way.discard(first)
                    return first
                self._look_at = first.deadline if first else None
                self._changed.wait(None if first is None else first.deadline - now)
            return None
