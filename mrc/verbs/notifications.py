# SPDX-License-Identifier: BSD-2-Clause
"""Queues with a file descriptor that is readable while something is in them."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from errno import EAGAIN, EIO, ETIMEDOUT
from typing import Generic, TypeVar

from mrc.verbs.device import Device
from mrc.verbs.errors import VerbsError

T = TypeVar("T")


class Notifications(Generic[T]):
    """What happened, in order. `put` never blocks; `get` waits. Any thread may do either."""

    __slots__ = ("__weakref__", "_close_fd", "_closed", "_device", "_items", "_limit", "_lock", "dropped", "fd")

    def __init__(self, device: Device, limit: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC | os.EFD_SEMAPHORE)
        # A program that forgets to close it must not run out of descriptors.
        self._close_fd = weakref.finalize(self, os.close, self.fd)
        # What was put while `limit` items waited.
        self.dropped = 0
        self._device = device
        self._items: deque[T] = deque()
        self._limit = limit
        self._lock = threading.Lock()
        self._closed = False

    def put(self, item: T) -> None:
        with self._lock:
            if self._closed:
                return
            if self._limit is not None and len(self._items) >= self._limit:
                self.dropped += 1
                return
            self._items.append(item)
            self._device.ring(self.fd)

    def get(self, timeout: float | None) -> T:
        """The oldest. Waits at most `timeout` seconds, without one for ever.

        Raises VerbsError EAGAIN with a timeout of 0 when there is nothing, ETIMEDOUT after any other, EIO when closed.
        """
        while True:
            with self._lock:
                if self._closed:
                    raise VerbsError(EIO, "it is closed")
                if self._items:
                    os.eventfd_read(self.fd)
                    return self._items.popleft()
            if timeout is not None and timeout <= 0:
                raise VerbsError(EAGAIN, "nothing has happened")
            before = self._device.now()
            if not self._device.wait(self.fd, self._pending, timeout):
                raise VerbsError(ETIMEDOUT, "nothing has happened in time")
            if timeout is not None:
                # Another thread may have been faster: wait for what is left.
                timeout = max(timeout - (self._device.now() - before) / 1e9, 1e-9)

    def take(self, most: int) -> list[T]:
        """The oldest ones, at most so many, none when nothing waits. Never waits."""
        with self._lock:
            if self._closed:
                return []
            taken = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            for _ in taken:
                os.eventfd_read(self.fd)
            return taken

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        return len(self._items)

    def _pending(self) -> bool:
        return bool(self._items) or self._closed

    def forget(self, unwanted: Callable[[T], bool]) -> None:
        """Take out what `unwanted` names."""
        with self._lock:
            if self._closed:
                return
            kept = [item for item in self._items if not unwanted(item)]
            for _ in range(len(self._items) - len(kept)):
                os.eventfd_read(self.fd)
            self._items = deque(kept)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.eventfd_write(self.fd, 1)  # wakes who waits
                self._close_fd()
