# SPDX-License-Identifier: BSD-2-Clause
"""A store for ranks of one process: threads, or hosts in virtual time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mrc.collectives.control.memory import Board


class MemoryStore:
    """A store in the memory of this process. In virtual time no rank may wait, so `when` calls back."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self.board = Board()
        self._watches: list[tuple[set[str], Callable[[], None]]] = []

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key."""
        with self._changed:
            self._values[key] = bytes(value)
            self._changed.notify_all()
            due = []
            for watch in self._watches:
                watch[0].discard(key)
                if not watch[0]:
                    due.append(watch)
            self._watches = [watch for watch in self._watches if watch[0]]
        for _, action in due:
            action()

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout):
                raise TimeoutError(f"nobody has set {key!r} within {timeout:g} s")
            return self._values[key]

    def when(self, keys: Sequence[str], action: Callable[[], None]) -> None:
        """Call `action` when all these keys are set: at once, or in the thread that sets the last one."""
        with self._changed:
            missing = {key for key in keys if key not in self._values}
            if missing:
                self._watches.append((missing, action))
                return
        action()
