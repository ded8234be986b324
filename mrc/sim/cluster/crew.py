# SPDX-License-Identifier: BSD-2-Clause
"""Threads that compute shards side by side, one window after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from types import TracebackType

from mrc.sim.cluster.shard import Shard
from mrc.threads import start_thread

Act = Callable[[Shard], None]
_Task = tuple[Act, Iterator[Shard]]


class Crew:
    """The calling thread and `threads` - 1 others, from `with` to its end. Who is free takes the next shard: which
    thread computes a shard changes nothing of what comes of it."""

    def __init__(self, threads: int) -> None:
        self._tasks: list[SimpleQueue[_Task | None]] = [SimpleQueue() for _ in range(threads - 1)]
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def __enter__(self) -> Crew:
        for tasks in self._tasks:
            self._threads.append(start_thread(self._work, tasks, name="mrc shards"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for tasks in self._tasks:
            tasks.put(None)
        for thread in self._threads:
            thread.join()

    def each(self, act: Act, shards: Sequence[Shard]) -> None:
        """Do this with each shard, and return when all is done. Raises what `act` raised."""
        rest = iter(shards)
        for tasks in self._tasks:
            tasks.put((act, rest))
        try:
            for shard in rest:
                act(shard)
        finally:
            errors = [self._ends.get() for _ in self._tasks]
        for error in errors:
            if error is not None:
                raise error

    def _work(self, tasks: SimpleQueue[_Task | None]) -> None:
        while (task := tasks.get()) is not None:
            act, rest = task
            try:
                for shard in rest:
                    act(shard)
            except BaseException as error:
                self._ends.put(error)
            else:
                self._ends.put(None)
