# SPDX-License-Identifier: BSD-2-Clause
"""What threads ask of the one that has the endpoint, in the order in which they ask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Calls:
    """True while one waits to be carried out."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Future[Any] | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, action: Callable[[], T]) -> Future[T]:
        """`action`, of which somebody waits for what comes."""
        # Loaded by the first who waits for a running loop: logging comes with it.
        from concurrent.futures import Future

        future: Future[T] = Future()
        self._waiting.append((action, future))
        return future

    def add(self, action: Callable[[], None]) -> None:
        """`action`, for which nobody waits. It raises nothing."""
        self._waiting.append((action, None))

    def carry_out(self) -> None:
        """All that wait, and what they ask for meanwhile."""
        while self._waiting:
            action, future = self._waiting.popleft()
            if future is None:
                action()
                continue
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

    def drop(self) -> list[Future[Any]]:
        """Carry none of them out. Returns the futures of those that somebody waits for, to be told why."""
        waited_for = [future for _, future in self._waiting if future and future.set_running_or_notify_cancel()]
        self._waiting.clear()
        return waited_for
