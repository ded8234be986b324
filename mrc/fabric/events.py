# SPDX-License-Identifier: BSD-2-Clause
"""What was done to a fabric and when: the records of an event log, one JSON object a line.

Each record has both clocks, so that it lies on one time line with captures, which have the wall clock's time, and with
traces and statistics, which have CLOCK_MONOTONIC's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from mrc.trace.vocabulary import EVENTS, EventType
from mrc.untrusted import NotJson, parse_json

_READINGS = 3
# No time is as large: what is beyond belongs to a damaged record.
_MOST_NS = 1 << 62
_LINKS_SAID, _LONGEST_WORDS = 6, 1000


@dataclass(frozen=True, slots=True)
class FabricEvent:
    """Something was done to a fabric at `at_monotonic_ns`, which is `at_unix_ns` since 1970 by the wall clock.

    `event` is the name of one of the `fabric` events of mrc.trace.vocabulary, without that category. `target` is what
    the caller named, `links` the names of the cables that it stands for, `details` the event's fields.
    """

    at_monotonic_ns: int
    at_unix_ns: int
    event: str
    target: str
    links: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls, kind: EventType, target: str, links: Iterable[str], at_monotonic_ns: int, details: Mapping[str, Any]
    ) -> FabricEvent:
        """What happened a moment ago, at `at_monotonic_ns`; the wall clock's time is worked out now."""
        return cls(at_monotonic_ns, at_monotonic_ns + wall_clock_offset_ns(), kind.word, target, tuple(links), details)

    @property
    def kind(self) -> EventType | None:
        """Its row of the vocabulary; None for one that this release does not know."""
        return EVENTS.get(f"fabric:{self.event}")

    @property
    def words(self) -> str:
        """What was done, for people: one line that does nothing to a terminal."""
        said = [f"{self.event:<10}", self.target]
        if self.links and self.links != tuple(self.target.split()):
            more = f" and {len(self.links) - _LINKS_SAID} more" if len(self.links) > _LINKS_SAID else ""
            said.append(f"({' '.join(self.links[:_LINKS_SAID])}{more})")
        said += [_detail(key, value) for key, value in self.details.items()]
        return "".join(each if each.isprintable() else "?" for each in "  ".join(said)[:_LONGEST_WORDS])

    def to_json(self) -> dict[str, Any]:
        return {
            "at_monotonic_ns": self.at_monotonic_ns,
            "at_unix_ns": self.at_unix_ns,
            "event": self.event,
            "target": self.target,
            "links": list(self.links),
            "details": dict(self.details),
        }

    def to_line(self) -> bytes:
        """The record, with the line feed that ends it."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode() + b"\n"


def _detail(key: str, value: Any) -> str:
    """Durations in milliseconds and lists in words; the unit of anything else is in its key."""
    if key.endswith("_ns") and isinstance(value, int):
        return f"{key.removesuffix('_ns')} {value / 1e6:.3f} ms"
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return f"{key} {value}"


def wall_clock_offset_ns() -> int:
    """What turns CLOCK_MONOTONIC's nanoseconds into nanoseconds since 1970: the best of some readings."""
    readings = []
    for _ in range(_READINGS):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, real - (before + after) // 2))
    return min(readings)[1]


def parse_line(line: bytes) -> FabricEvent | None:
    """The event of one line; None for what is none: damaged, or something else."""
    try:
        found = parse_json(line)
    except NotJson:
        return None
    if not isinstance(found, dict):
        return None
    monotonic, unix, links, details = (found.get(key) for key in ("at_monotonic_ns", "at_unix_ns", "links", "details"))
    event, target = found.get("event"), found.get("target")
    if not (_is_time(monotonic) and _is_time(unix) and isinstance(details, dict)):
        return None
    if not (isinstance(event, str) and isinstance(target, str) and isinstance(links, list)):
        return None
    if not all(isinstance(link, str) for link in links):
        return None
    return FabricEvent(monotonic, unix, event, target, tuple(links), details)


def _is_time(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_NS


def parse_events(lines: Iterable[bytes]) -> tuple[list[FabricEvent], int]:
    """The events of these lines, oldest first, and how many lines are none. Empty lines count as nothing."""
    events: list[FabricEvent] = []
    damaged = 0
    for line in lines:
        if not line.strip():
            continue
        event = parse_line(line)
        if event is None:
            damaged += 1
        else:
            events.append(event)
    return in_order(events), damaged


def in_order(events: Sequence[FabricEvent]) -> list[FabricEvent]:
    """Oldest first: who writes a moment later may have begun a moment earlier."""
    return sorted(events, key=lambda each: each.at_monotonic_ns)
