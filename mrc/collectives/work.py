"""The future that each operation returns."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from mrc.collectives.errors import OperationTimeout
from mrc.errors import MrcError
from mrc.verbs.device import Device

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger("mrc.collectives")

# Descriptors kept for the next waits.
_KEPT_FDS = 16
_fds: deque[int] = deque()


class Work:
    """An operation in progress. Do not touch its arrays until it is done."""

    __slots__ = ("_callbacks", "_device", "_error", "_lock", "_waited_for", "_waiters", "done", "name")

    def __init__(self, device: Device, name: str) -> None:
        self.name = name
        self.done = False
        self._device = device
        self._error: MrcError | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Work], None]] = []
        self._waiters: list[int] = []
        self._waited_for: Callable[[], str] = str

    def wait(self, timeout: float | None = None) -> None:
        """Return when the operation is done. Raises its error, or OperationTimeout after `timeout` seconds."""
        if not self.done:
            self._wait(timeout)
        if self._error is not None:
            raise self._error

    def _wait(self, timeout: float | None) -> None:
        fd = _fds.popleft() if _fds else os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        with self._lock:
            if not self.done:
                self._waiters.append(fd)
        try:
            if not self._device.wait(fd, lambda: self.done, timeout):
                raise OperationTimeout(f"{self.name} is not done after {timeout:g} s{self._waited_for()}")
        finally:
            with self._lock:
                if fd in self._waiters:
                    self._waiters.remove(fd)
            self._give_back(fd)

    @staticmethod
    def _give_back(fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(fd)
        if len(_fds) < _KEPT_FDS:
            _fds.append(fd)
        else:
            os.close(fd)

    def waited_for(self) -> str:
        """Return which ranks the operation waits for, as the end of a sentence; empty when it is done."""
        return "" if self.done else self._waited_for()

    def exception(self) -> MrcError | None:
        """Return the error that ended the operation; None while it runs and when it succeeded."""
        return self._error

    def add_done_callback(self, function: Callable[[Work], None]) -> None:
        """Call `function(work)` when the operation is done, in the thread that finishes it; at once if it is done.

        The function may start operations. It must be quick and must not wait for an operation.
        """
        with self._lock:
            if not self.done:
                self._callbacks.append(function)
                return
        function(self)

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        if not self.done:
            import asyncio

            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                if not future.done():
                    future.set_result(None)

            def done(_: Work) -> None:
                loop.call_soon_threadsafe(tell)

            self.add_done_callback(done)
            yield from future
        self.wait()

    def __repr__(self) -> str:
        state = "under way" if not self.done else "done" if self._error is None else f"failed: {self._error}"
        return f"<Work {self.name}: {state}>"

    # ------------------------------------------------------------------ for the group

    def says(self, waited_for: Callable[[], str]) -> None:
        """Set the function that describes which ranks the operation waits for."""
        self._waited_for = waited_for

    def finish(self, error: MrcError | None = None) -> None:
        """End the operation, wake its waiters and run its callbacks."""
        with self._lock:
            if self.done:
                return
            self._error = error
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            for fd in self._waiters:
                self._device.ring(fd)
        for each in callbacks:
            try:
                each(self)
            except Exception:
                # It must not end the group, whose engine calls it.
                _log.exception("a callback of %s failed", self.name)
