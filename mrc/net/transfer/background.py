# SPDX-License-Identifier: BSD-2-Clause
"""Work that goes on beside a session's requests, one piece after another, in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mrc.errors import SystemRefused
from mrc.threads import start_thread


class Background:
    """Does what it is given, in order. Where the system allows no further thread it is done at once. Close it.

    What a piece of work raises is raised by the next `join` or `close`; what was given after it is done all the same.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def submit(self, work: Callable[[], object]) -> None:
        """Do this after what was given before."""
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, name=self._name)
            except SystemRefused:
                self._do(work)
                return
        self._work.put(work)

    def join(self) -> None:
        """Wait until all that was given is done."""
        if self._thread is not None:
            done = threading.Event()
            self._work.put(done.set)
            done.wait()
        self._raise()

    def close(self) -> None:
        """Do the rest, and end the thread. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()
        self._raise()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            self._do(work)

    def _do(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._failure = self._failure or error

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
