# SPDX-License-Identifier: BSD-2-Clause
"""Whether the machine let a process run: a thread that wakes every 10 ms, and the kernel's account of waiting."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from mrc.threads import start_thread

_BEAT_S = 0.01
# A gap this much longer than a beat is noted; whether it is long enough to disturb is the recording's to say.
LEAST_STANDSTILL_NS = 15_000_000


class Heartbeat:
    """Runs from entering to leaving the context. `standstills` are (when one ended, how long it took), ns."""

    def __init__(self) -> None:
        self.standstills: list[tuple[int, int]] = []
        self._over = threading.Event()

    def _run(self) -> None:
        before = time.monotonic_ns()
        while not self._over.wait(_BEAT_S):
            now = time.monotonic_ns()
            if now - before >= LEAST_STANDSTILL_NS:
                self.standstills.append((now, now - before))
            before = now

    def __enter__(self) -> Heartbeat:
        self._thread = start_thread(self._run, name="heartbeat")
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()


class ProcessorWait:
    """How much of its time the calling thread waits for a processor, counted from when this is made.

    The kernel's account is /proc/thread-self/schedstat; where it keeps none, the share stays 0.
    """

    def __init__(self) -> None:
        self._began_ns = time.monotonic_ns()
        self._waited_ns = _run_delay_ns()

    def share(self) -> float:
        """From 0 to 1. Call it in the same thread."""
        took = time.monotonic_ns() - self._began_ns
        return max(0, _run_delay_ns() - self._waited_ns) / took if took else 0.0


def _run_delay_ns() -> int:
    """Time this thread was ready to run and did not (the second number of schedstat), ns."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
