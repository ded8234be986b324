# SPDX-License-Identifier: BSD-2-Clause
"""What was done to the fabric meanwhile: a lab's event log on the time line of a capture or a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from mrc.capture.analysis.advice import advised
from mrc.capture.analysis.finding import WARNING, Finding
from mrc.errors import CallerError
from mrc.fabric.events import FabricEvent, parse_events
from mrc.report.units import plural
from mrc.trace.vocabulary import CLEAR, CUT, HEAL, IMPAIR


@dataclass(frozen=True, slots=True)
class FabricEvents:
    """The events of the log `file`, oldest first, beside something that began at `start_ns` and took `duration_ns`.

    `start_ns` counts from 1970; None where what is analysed has no wall clock's time, and then no event has a place.
    """

    file: str
    events: Sequence[FabricEvent]
    damaged: int
    start_ns: int | None
    duration_ns: int

    def time_ns(self, event: FabricEvent) -> int | None:
        """Nanoseconds since the beginning of what is analysed, negative before it."""
        return None if self.start_ns is None else event.at_unix_ns - self.start_ns

    @property
    def meanwhile(self) -> list[tuple[int, FabricEvent]]:
        """What happened while it went on, with its time."""
        timed = [(self.time_ns(event), event) for event in self.events]
        return [(time, event) for time, event in timed if time is not None and 0 <= time <= self.duration_ns]

    @property
    def in_force(self) -> list[FabricEvent]:
        """What was done before, and still held when it began: cables that were cut, impairments."""
        standing: dict[tuple[str, ...], FabricEvent] = {}
        for event in self.events:
            time = self.time_ns(event)
            if time is None or time >= 0:
                break
            _apply(event, standing)
        return list(dict.fromkeys(standing.values()))

    def to_json(self) -> dict[str, Any]:
        """For the document: every event with its time."""
        return {
            "file": self.file,
            "damaged_lines": self.damaged,
            "events": [{"time_ns": self.time_ns(event), **event.to_json()} for event in self.events],
        }

    def findings(self) -> list[Finding]:
        if self.start_ns is None:
            text = f"{self.file}: its events have no place here: there is no wall clock's time to hold them against"
        elif self.events and not self.meanwhile:
            times = [time for time in map(self.time_ns, self.events) if time is not None]
            text = f"{self.file}: none of its {plural(len(times), 'event')} lies within the "
            text += f"{self.duration_ns / 1e9:.3f} s here: "
            text += f"they lie from {min(times) / 1e9:,.3f} s to {max(times) / 1e9:,.3f} s after the beginning"
        else:
            return []
        return advised([Finding(WARNING, "fabric-events-elsewhere", text)])


def read_fabric_events(stream: BinaryIO, name: str) -> tuple[list[FabricEvent], int]:
    """The events of a log and the number of damaged lines. Raises CallerError when it is none."""
    events, damaged = parse_events(stream)
    if damaged and not events:
        raise CallerError(f"{name}: not an event log: `mrc lab events --jsonl > {name}` writes one")
    return events, damaged


def _apply(event: FabricEvent, standing: dict[tuple[str, ...], FabricEvent]) -> None:
    """`standing` is by what it sets: the state of a cable, or one thing that is wrong with one way of it."""
    toward = event.details.get("toward")
    ends = [str(end) for end in (toward if isinstance(toward, list) else [toward])]
    for link in event.links:
        if event.kind in (CUT, HEAL):
            standing.pop(("cable", link), None)
            if event.kind is CUT:
                standing["cable", link] = event
        elif event.kind in (IMPAIR, CLEAR):
            for end in ends:
                given = {name: value for name, value in event.details.items() if name != "toward"}
                gone = [key for key in standing if key[:3] == ("way", link, end)]
                for key in gone:
                    if event.kind is CLEAR or key[3] in given:
                        del standing[key]
                standing |= {("way", link, end, name): event for name, value in given.items() if value}
