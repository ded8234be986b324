# SPDX-License-Identifier: BSD-2-Clause
"""What is read ahead in a thread of its own, while what was read before is sent."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

from mrc.errors import SystemRefused
from mrc.threads import start_thread

T = TypeVar("T")
_AHEAD = 2  # items
_LOOK_S = 0.1


class Ahead(Generic[T]):
    """Iterates over `items`, a few of which are made ahead. What making one raises is raised in its place.

    `items` may yield None between the parts of an item. None is skipped, and `close` then waits for a part instead of
    a whole item. If the system allows no further thread, each item is made on demand. Close it.
    """

    def __init__(self, items: Iterator[T | None]) -> None:
        self._items = items
        self._made: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(_AHEAD)
        self._over = False
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[T]:
        try:
            self._thread = start_thread(self._make, name="mrc read ahead")
        except SystemRefused:
            yield from (item for item in self._items if item is not None)
            return
        while True:
            item, error = self._made.get()
            if error is not None:
                if isinstance(error, StopIteration):
                    return
                raise error
            if item is not None:
                yield item

    def _make(self) -> None:
        while not self._over:
            try:
                made: tuple[T | None, BaseException | None] = (next(self._items), None)
                if made[0] is None:
                    continue
            except BaseException as error:
                made = (None, error)
            while not self._over:
                try:
                    self._made.put(made, timeout=_LOOK_S)
                    break
                except queue.Full:
                    continue
            if self._over or made[1] is not None:
                return

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        self._over = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
