"""What an operation returns at once: a future."""

from __future__ import annotations

import contextlib
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

# Descriptors of waits that are over, for the next ones.
_KEPT_FDS = 16
_fds: deque[int] = deque()


class Work:
    """An operation under way. Its arrays belong to the group until it is done."""

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
        """Return once it is done. Raises what ended it, OperationTimeout after `timeout` seconds: then it goes on."""
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
        """Whom it waits for, as an error says it after what is not done: nothing where it is done."""
        return "" if self.done else self._waited_for()

    def exception(self) -> MrcError | None:
        """What ended it; None while it is under way, and when it succeeded."""
        return self._error

    def add_done_callback(self, function: Callable[[Work], None]) -> None:
        """Call `function(work)` once it is done, where the endpoint's loop runs; here and now when it is done already.

        It should be quick, may start operations, and must not wait for any.
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
        """What a wait in vain tells of it."""
        self._waited_for = waited_for

    def finish(self, error: MrcError | None = None) -> None:
        """It has ended. Calls what was to be called."""
        with self._lock:
            if self.done:
                return
            self._error = error
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            for fd in self._waiters:
                self._device.ring(fd)
        for each in callbacks:
            each(self)
