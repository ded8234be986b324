# SPDX-License-Identifier: BSD-2-Clause
"""The endpoint's event log: what it may say, and reading it back (docs/trace.md). `mrc.trace.writer` writes it.

with open(path, "rb") as stream:
    header, events = read_trace(stream)
    lost = [event for event in events if event.kind is PACKET_LOST]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.trace.reader import Event, Events, Header, is_trace, is_trace_file, read_trace
    from mrc.trace.vocabulary import EVENTS, EventType, Field, Kind

__all__ = [
    "EVENTS",
    "Event",
    "EventType",
    "Events",
    "Field",
    "Header",
    "Kind",
    "is_trace",
    "is_trace_file",
    "read_trace",
]

__getattr__ = lazy_names(
    __name__,
    {
        "reader": ("Event", "Events", "Header", "is_trace", "is_trace_file", "read_trace"),
        "vocabulary": ("EVENTS", "EventType", "Field", "Kind"),
    },
)
