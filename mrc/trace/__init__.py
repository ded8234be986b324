"""The endpoint's event log: what it may say, and reading it back (docs/trace.md). `mrc.trace.writer` writes it.

with open(path, "rb") as stream:
    header, events = read_trace(stream)
    lost = [event for event in events if event.kind is PACKET_LOST]
"""

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
