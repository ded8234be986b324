# SPDX-License-Identifier: BSD-2-Clause
"""Cells on processes of this host. One that dies is replaced, and its cell runs again."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence

from mrc.child import Child, forked, python
from mrc.errors import PeerError
from mrc.records import record
from mrc.sim.sweep.directory import Task
from mrc.sim.sweep.handover import read_result
from mrc.threads import start_thread

# A cell that ends its process each time, for want of memory say, is given up.
ATTEMPTS = 3


@record(frozen=True, slots=True, eq=False)
class Finished:
    """A cell's files, or none and what was wrong. `died`: how many processes ended over it."""

    task: Task
    files: dict[str, bytes]
    problem: str
    died: int = 0


def run_local(tasks: Sequence[Task], processes: int) -> Iterator[Finished]:
    """Simulate cells on so many processes; yields each as it is done. Closing the iterator ends the processes.

    They are forks of this process, which imports what they need once.
    """
    import mrc.sim.results.execute  # noqa: F401

    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[Finished | BaseException] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    workers = [_Worker(waiting, done) for _ in range(min(processes, len(tasks)))]
    try:
        for worker in workers:
            worker.start()
        for _ in tasks:
            finished = done.get()
            if isinstance(finished, BaseException):
                raise finished
            yield finished
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A thread, and the process that it feeds."""

    def __init__(self, waiting: queue.SimpleQueue[Task], done: queue.SimpleQueue[Finished | BaseException]) -> None:
        self._waiting = waiting
        self._done = done
        self._child: Child | None = None
        self._ending = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises SystemRefused."""
        self._thread = start_thread(self._work, name="mrc sweep")

    def end(self) -> None:
        with self._lock:
            self._ending = True
            if self._child is not None:
                self._child.process.kill()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            with contextlib.suppress(queue.Empty):
                while not self._ending:
                    self._done.put(self._finished(self._waiting.get_nowait()))
        except BaseException as error:
            if not self._ending:
                self._done.put(error)
        finally:
            self._stop()

    def _finished(self, task: Task) -> Finished:
        for attempt in range(ATTEMPTS):
            result = self._tried(task)
            if result is not None:
                return Finished(task, *result, died=attempt)
            self._stop()
            if self._ending:
                break
        return Finished(task, {}, f"its process ended {ATTEMPTS} times before it was done", died=ATTEMPTS)

    def _tried(self, task: Task) -> tuple[dict[str, bytes], str] | None:
        child = self._started()
        if child is None:
            return None
        try:
            child.say(task.cell.file.to_json())
            return read_result(child)
        except PeerError:
            return None

    def _started(self) -> Child | None:
        with self._lock:
            if self._child is None and not self._ending:
                # What it says on stderr is for who runs the sweep.
                self._child = Child("a worker", python("mrc.sim.sweep.worker"), forked, talks=True, stderr=None)
            return self._child

    def _stop(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            child.close()
