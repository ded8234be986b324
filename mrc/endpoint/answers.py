"""What SACKs and NACKs have in common: what caused them, the timestamp they reflect, how they wait and are framed."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from mrc.endpoint.paths import PathSet
from mrc.wire.batch import EXTENSION_AT, TransmitBatch

I64 = npt.NDArray[np.int64]

# The packet that causes an answer: its PSN (unbounded), EV, timestamp and rtx bit go back in it. `unit_ns` is the unit
# of the timestamp, 0 where the time a packet is held is not added to it.
CAUSE: list[tuple[str, str]] = [
    ("psn", "i8"),
    ("arrived_at", "i8"),
    ("entropy", "u4"),
    ("unit_ns", "i4"),
    ("tx_timestamp", "u2"),
    ("rtx", "?"),
]
Causes = npt.NDArray[np.void]

_MAX_PENDING = 1024


def reflected_timestamps(causes: Causes, now: int) -> I64:
    """tx_timestamp plus the time held, each in the packet's own unit; 0 when there was no timestamp."""
    units = causes["unit_ns"].astype(np.int64)
    held = (now - causes["arrived_at"]) // np.maximum(units, 1)
    held[units == 0] = 0
    return np.asarray((causes["tx_timestamp"] + held) & 0xFFFF)


class PendingAnswers:
    """Answers that wait to be sent, bounded: under a flood the oldest give way."""

    __slots__ = ("_waiting", "count")

    def __init__(self) -> None:
        self._waiting: deque[Causes] = deque()
        self.count = 0

    def add(self, causes: Causes) -> None:
        causes = causes[-_MAX_PENDING:]
        self._waiting.append(causes)
        self.count += len(causes)
        while self.count > _MAX_PENDING:
            oldest = self._waiting.popleft()
            surplus = min(self.count - _MAX_PENDING, len(oldest))
            self.count -= surplus
            if surplus < len(oldest):
                self._waiting.appendleft(oldest[surplus:])

    def take(self, most: int) -> Causes:
        """The oldest of them, up to `most`."""
        causes = self._waiting.popleft()
        if len(causes) > most:
            self._waiting.appendleft(causes[most:])
            causes = causes[:most]
        self.count -= len(causes)
        return causes

    def clear(self) -> None:
        self._waiting.clear()
        self.count = 0


def extend_control(
    batch: TransmitBatch, paths: PathSet, indexes: I64, traffic_class: int, extension_length: int
) -> tuple[int, int]:
    """Append control packets on these EVs, their extension headers all zero. Returns (start, stop) for `fields`."""
    start, stop = batch.extend(
        paths.templates[indexes], paths.port[indexes], paths.destinations[indexes], traffic_class, extension_length
    )
    batch.headers[start:stop, EXTENSION_AT : EXTENSION_AT + extension_length] = 0
    return start, stop
