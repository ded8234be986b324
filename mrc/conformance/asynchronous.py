# SPDX-License-Identifier: BSD-2-Clause
"""A session with an endpoint that lives in an asyncio event loop, with timers of its own and in real time."""

from __future__ import annotations

import asyncio
import queue
import time
from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from mrc.conformance.setup import Setup, TesterQp
from mrc.conformance.target import Frame, Refused, Session, TargetCrashed, TargetQp, Unsupported
from mrc.threads import start_thread

__all__ = ["AsyncSession"]

T = TypeVar("T")
# What such an endpoint does at once may take so long: a loop, other tasks, the interpreter.
DEFAULT_SLACK_NS = 50_000_000
_ANSWER_S = 10.0


class AsyncSession(Session):
    """Runs the endpoint's event loop in a thread of its own, for one case.

    An adapter implements `connected`, `deliver` and, where there is something to begin or end, `started` and `stopped`,
    all coroutines that run in that loop. It calls `sent` for each packet the endpoint sends. What a task of the loop
    raises is a crash of the endpoint. Methods of its `TargetQp` use `wait` to have something done in the loop.
    """

    slack_ns = DEFAULT_SLACK_NS

    def __init__(self) -> None:
        self._frames: queue.Queue[Frame] = queue.Queue()
        self._crash: str | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_crash)
        self._loop.set_task_factory(self._task)
        self._thread = start_thread(self._loop.run_forever, name="mrc conformance target")
        self.wait(self.started())

    # ------------------------------------------------------------------ what an adapter implements

    async def started(self) -> None:
        """The session begins: make the endpoint."""

    async def stopped(self) -> None:
        """The session is over: take the endpoint down."""

    @abstractmethod
    async def connected(self, setup: Setup, tester: TesterQp) -> TargetQp:
        """A new connection, the target's end of it in RTS. Raises Unsupported for what cannot be had."""

    @abstractmethod
    async def deliver(self, frames: Sequence[Frame]) -> None:
        """The endpoint receives these at once. Returns when it has them; it may answer later."""

    # ------------------------------------------------------------------ what it calls

    def sent(self, frame: Frame) -> None:
        """The endpoint sent this. From any thread."""
        self._frames.put(frame)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the endpoint's loop and return what it returns. Not from that loop.

        What it raises comes out, Unsupported and Refused as they are and anything else as TargetCrashed, and so does
        what a task of the endpoint raised before. Raises TargetCrashed when nothing comes of it in 10 s.
        """
        result = self._outcome(coroutine)
        self._check()
        return result

    def _outcome(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(_ANSWER_S)
        except (Unsupported, Refused, TargetCrashed):
            raise
        except TimeoutError:
            future.cancel()
            raise TargetCrashed(f"its event loop did not answer within {_ANSWER_S:g} s") from None
        except Exception as error:
            raise TargetCrashed(f"it raised {type(error).__name__}: {error}") from error

    # ------------------------------------------------------------------ the session

    @property
    def now(self) -> int:
        return time.monotonic_ns()

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        return self.wait(self.connected(setup, tester))

    def put(self, frames: Sequence[Frame]) -> None:
        self.wait(self.deliver(frames))

    def get(self, until: int) -> Sequence[Frame]:
        self._check()
        try:
            found = [self._frames.get(timeout=max(0, until - self.now) / 1e9)]
        except queue.Empty:
            self._check()
            return ()
        while not self._frames.empty():
            found.append(self._frames.get())
        return found

    def close(self) -> None:
        """End what the endpoint still does, and its loop."""
        try:
            self._outcome(self._ended())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _ended(self) -> None:
        await self.stopped()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        """A task whose end is looked at: one that nobody waits for would fail in silence."""
        task = asyncio.Task(coroutine, loop=loop, **more)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Unsupported | Refused | TargetCrashed):
            self._crash = self._crash or f"it raised {type(error).__name__}: {error}"

    def _on_crash(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Of a callback of the loop."""
        error = context.get("exception")
        self._crash = self._crash or (
            f"it raised {type(error).__name__}: {error}" if error is not None else str(context.get("message"))
        )

    def _check(self) -> None:
        if self._crash is not None:
            raise TargetCrashed(self._crash)
