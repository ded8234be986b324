# SPDX-License-Identifier: BSD-2-Clause
"""The future that each operation returns."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

from mrc.collectives.errors import OperationTimeout
from mrc.errors import MrcError
from mrc.verbs.bells import Bell, Bells, Deadline

_log = logging.getLogger("mrc.collectives")


class Work:
    """An operation in progress. Do not touch its arrays until it is done."""

    __slots__ = ("_bells", "_call", "_callbacks", "_error", "_lock", "_waited_for", "done", "source")

    def __init__(self, bells: Bells, call: object) -> None:
        """`bells`: those of all who wait for a work of its group; `call`: what was called, with its words as str."""
        self.done = False
        # The rank that a `recv` receives from; None where that is not known yet.
        self.source: int | None = None
        self._call = call
        self._bells = bells
        self._error: MrcError | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Work], None]] = []
        self._waited_for: Callable[[], str] = str

    @property
    def name(self) -> str:
        """What was called, as `all_reduce(4,096 bytes, of float32, SUM)`."""
        return str(self._call)

    def wait(self, timeout: float | None = None) -> None:
        """Return when the operation is done. Raises its error, or OperationTimeout after `timeout` seconds."""
        if not self.done:
            deadline = Deadline(self._bells.device, timeout)
            with self._bells.one() as bell:
                # The bell rings for other works of the group as well.
                while not self._is_done(bell):
                    if not bell.wait(deadline.left_s()):
                        raise self._late(timeout)
        if self._error is not None:
            raise self._error

    async def _awaited(self) -> None:
        if not self.done:
            with self._bells.one() as bell:
                while not self._is_done(bell):
                    if not await bell.wait_async(None):
                        raise self._late(None)
        if self._error is not None:
            raise self._error

    def _is_done(self, bell: Bell) -> bool:
        """Return whether it is done. If not, the bell rings when it is."""
        bell.hush()
        return self.done

    def _late(self, timeout: float | None) -> OperationTimeout:
        after = "" if timeout is None else f" after {timeout:g} s"
        return OperationTimeout(f"{self.name} is not done{after}{self._waited_for()}")

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

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a coroutine of asyncio, with a thread that runs the device or without one."""
        return self._awaited().__await__()

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
        self._bells.ring()
        for each in callbacks:
            try:
                each(self)
            except Exception:
                # It must not end the group, whose engine calls it.
                _log.exception("a callback of %s failed", self.name)
