"""Whether the machine let a process run: a thread that wakes every 10 milliseconds and notes when it could not."""

from __future__ import annotations

import threading
import time

_BEAT_S = 0.01
# What a busy machine, or the rest of the process, makes a thread wait is no standstill.
LEAST_STANDSTILL_NS = 30_000_000


class Heartbeat:
    """Runs from entering to leaving the context. `standstills` are (when one ended, how long it took), ns."""

    def __init__(self) -> None:
        self.standstills: list[tuple[int, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def _run(self) -> None:
        before = time.monotonic_ns()
        while not self._over.wait(_BEAT_S):
            now = time.monotonic_ns()
            if now - before >= LEAST_STANDSTILL_NS:
                self.standstills.append((now, now - before))
            before = now

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
