# SPDX-License-Identifier: BSD-2-Clause
"""Something small that a loop serves between its turns, as the control socket is."""

from __future__ import annotations

from typing import Protocol


class Attendant(Protocol):
    """It never blocks."""

    sources: list[int]  # file descriptors that wake a loop that sleeps

    def attend(self) -> int:
        """Do what there is to do. Returns after how many ns a loop that does not sleep comes back, if no source is
        readable before."""
        ...

    def patience_s(self) -> float | None:
        """How long a loop with nothing else to do may sleep without coming back, s; None: until a source wakes it."""
        ...

    def close(self) -> None: ...


class Attendance:
    """Decides when a loop next serves its attendant."""

    __slots__ = ("_due", "_sources", "attendant")

    def __init__(self, attendant: Attendant) -> None:
        self.attendant = attendant
        self._due = 0
        self._sources = list(attendant.sources)

    def look(self, now: int, readable: bool) -> bool:
        """Look after it if a source is `readable`, or if it is time. `now` in ns. Returns whether it has other sources
        now."""
        if not readable and now < self._due:
            return False
        self._due = now + self.attendant.attend()
        before, self._sources = self._sources, list(self.attendant.sources)
        return before != self._sources

    def next_look(self, now: int, otherwise: int) -> int:
        """When a loop that has nothing to do looks next, ns: `otherwise`, or earlier."""
        patience = self.attendant.patience_s()
        if patience is None:
            return otherwise
        self._due = min(self._due, now + int(patience * 1e9))
        return min(otherwise, self._due)
