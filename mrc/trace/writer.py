# SPDX-License-Identifier: BSD-2-Clause
"""A trace file. Events are put in a queue; a thread of its own writes them out several times a second.

The endpoint's loop pays for an append. After a crash the file has everything up to the last time it was written out.
When the disk is too slow events are dropped and counted, when it refuses the trace ends: a transfer never waits for it.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrc import __version__
from mrc.errors import SystemRefused
from mrc.opened import not_in_a_child
from mrc.threads import start_thread
from mrc.trace.records import MARK, VERSION, encode
from mrc.trace.vocabulary import CLOCK, DROPPED, END, EventType

__all__ = ["TraceWriter"]

FLUSH_INTERVAL_S = 0.2
QUEUE_LIMIT = 1 << 17  # events
# So many are written at a time: between two such pieces the endpoint's thread has its turn.
_PIECE = 128
_CLOCK_READINGS = 5
# A step of the wall clock smaller than this is what two readings may differ by.
_STEP_NS = 1_000_000

_Queued = tuple[EventType, int, int | None, tuple[object, ...]]


class TraceWriter:
    """Takes an endpoint's events (it is its Tracer) and writes them to a file. A context manager; `close` ends it.

    `failure` is why writing stopped, if it did; `dropped` how many events found the queue full.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        title: str,
        vantage_point: str,
        clock: Callable[[], int] = time.monotonic_ns,
        clock_name: str = "CLOCK_MONOTONIC",
        realtime: Callable[[], int] | None = time.time_ns,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        """`clock` is the endpoint's, ns; `realtime` nanoseconds since 1970, None where there is no wall clock.

        The header is written now, which raises OSError where that fails. The writer owns `descriptor`.
        """
        self.now = clock
        self.dropped = 0
        self.failure: OSError | None = None
        self._descriptor = descriptor
        self._realtime = realtime
        self._queue: deque[_Queued] = deque()
        self._limit = queue_limit
        self._written = 0
        self._reported_dropped = 0
        self._interval_s = flush_interval_s
        self._flushing = threading.Lock()
        self._closed = False
        offset, uncertainty = self._realtime_offset()
        self._offset = offset
        header = {
            MARK: VERSION,
            "title": title,
            "vantage_point": vantage_point,
            "generator": f"mrc {__version__}",
            "clock": {"name": clock_name, "realtime_offset_ns": offset, "uncertainty_ns": uncertainty},
        }
        self._write(encode(header))
        self._ending = threading.Event()
        self._thread = start_thread(self._run, name="mrc-trace")
        not_in_a_child(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, title: str, vantage_point: str, **options: Any) -> TraceWriter:
        """A new file, in place of one that is there; `options` as of the class. Raises SystemRefused when it cannot be
        written."""
        descriptor = None
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            return cls(descriptor, title=title, vantage_point=vantage_point, **options)
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            raise SystemRefused(error.errno or errno.EIO, f"{Path(path)}: {error.strerror}") from None

    # ------------------------------------------------------------------ events in

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...]) -> None:
        """Take one event: the values of its type's fields, in their order. From any thread; nothing is raised."""
        if len(self._queue) >= self._limit:
            self.dropped += 1
        elif self.failure is None and not self._closed:
            self._queue.append((kind, at_ns, qpn, values))

    # ------------------------------------------------------------------ the file

    def flush(self) -> None:
        """Write out what is queued. Does nothing once writing has failed."""
        with self._flushing:
            try:
                self._drain()
            except OSError as error:
                self.failure = error
                self._queue.clear()

    def close(self) -> None:
        """Write out the rest and end the file. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._ending.set()
        self._thread.join()
        self.flush()
        if self.failure is None:
            try:
                self._write(self._record(END, self.now(), None, (self._written,)))
            except OSError as error:
                self.failure = error
        os.close(self._descriptor)

    def _abandon(self) -> None:
        self._closed = True
        self._queue.clear()
        self._flushing = threading.Lock()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ending.wait(self._interval_s):
            self.flush()

    def _drain(self) -> None:
        queue = self._queue
        if self.failure is not None or not (queue or self.dropped > self._reported_dropped):
            return
        self._follow_clock()
        left = len(queue)  # what comes meanwhile is written the next time
        while left:
            piece = [self._record(*queue.popleft()) for _ in range(min(left, _PIECE))]
            left -= len(piece)
            self._write(b"".join(piece))
            self._written += len(piece)
        if (dropped := self.dropped) > self._reported_dropped:
            self._write(self._record(DROPPED, self.now(), None, (dropped - self._reported_dropped,)))
            self._written += 1
            self._reported_dropped = dropped

    def _follow_clock(self) -> None:
        """Both clocks run alike but for steps of the wall clock."""
        offset, uncertainty = self._realtime_offset()
        if offset is None or self._offset is None or uncertainty is None:
            return
        if abs(offset - self._offset) > _STEP_NS + uncertainty:
            self._offset = offset
            self._write(self._record(CLOCK, self.now(), None, (offset,)))
            self._written += 1

    def _realtime_offset(self) -> tuple[int | None, int | None]:
        """(what the wall clock is ahead of the endpoint's, how far that may be off), ns: the best of some readings."""
        if self._realtime is None:
            return None, None
        readings = []
        for _ in range(_CLOCK_READINGS):
            before, real, after = self.now(), self._realtime(), self.now()
            readings.append((after - before, real - (before + after) // 2))
        uncertainty, offset = min(readings)
        return offset, uncertainty

    @staticmethod
    def _record(kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...]) -> bytes:
        return encode({"time_ns": at_ns, "name": kind.name, "qpn": qpn, "data": kind.named(values)})

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
