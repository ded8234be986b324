# SPDX-License-Identifier: BSD-2-Clause
"""Work that goes on beside a session's requests, one piece after another, in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mrc.errors import SystemRefused
from mrc.threads import start_thread


class Background:
    """Does what it is given, in order. Where the system allows no further thread it is done at once. Close it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], object]) -> None:
        """Do this after what was given before. It raises nothing."""
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, name=self._name)
            except SystemRefused:
                work()
                return
        self._work.put(work)

    def join(self) -> None:
        """Wait until all that was given is done."""
        if self._thread is not None:
            done = threading.Event()
            self._work.put(done.set)
            done.wait()

    def close(self) -> None:
        """Do the rest, and end the thread. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
