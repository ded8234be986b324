# SPDX-License-Identifier: BSD-2-Clause
"""Reading a trace back: a header, then events one by one in constant memory, whatever state the file is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeGuard

from mrc.errors import CallerError
from mrc.trace.records import BEGINNING, LF, MARK, RS, VERSION, decode
from mrc.trace.vocabulary import CLOCK, END, EVENTS, EventType

_CHUNK = 1 << 16
_LONGEST_RECORD = 1 << 22  # bytes; anything beyond is damage


@dataclass(frozen=True, slots=True)
class Header:
    """What the first record says. `vantage_point` is sender or receiver, `clock` the name of the endpoint's clock.

    `realtime_offset_ns` is what turns `time_ns` into nanoseconds since 1970 (the time stamps of a capture), right
    within `uncertainty_ns`; both are None where there is no wall clock, as in a simulation.
    """

    title: str
    vantage_point: str
    generator: str
    clock: str
    realtime_offset_ns: int | None
    uncertainty_ns: int | None

    def realtime_ns(self, time_ns: int) -> int | None:
        """A moment of the endpoint's clock as nanoseconds since 1970, going by the header alone."""
        return None if self.realtime_offset_ns is None else time_ns + self.realtime_offset_ns


@dataclass(frozen=True, slots=True)
class Event:
    """One event at `time_ns` of the endpoint's clock. `qpn` is None where it is about no QP.

    `kind` is its row of the vocabulary, and then `data` has all its fields, each of its kind and perhaps more; None
    for a name this release does not know. `realtime_ns` is the same moment since 1970 where there is a wall clock.
    """

    time_ns: int
    name: str
    qpn: int | None
    data: dict[str, Any] = field(hash=False)
    kind: EventType | None
    realtime_ns: int | None

    @property
    def category(self) -> str:
        """The part of the name before the colon: `recovery`."""
        return self.name.partition(":")[0]

    def __getitem__(self, name: str) -> Any:
        """A field of its data."""
        return self.data[name]


class Events(Iterator[Event]):
    """The events of a trace in order. What is known about the file's state is right once the iteration is over.

    `skipped` counts records that were no events; `cut` says that the file ends in the middle of a record; `ended` that
    it was closed in order.
    """

    def __init__(self, records: Iterator[tuple[bytes, bool]], header: Header) -> None:
        self.skipped = 0
        self.cut = False
        self.ended = False
        self._records = records
        self._offset = header.realtime_offset_ns

    def __next__(self) -> Event:
        for text, whole in self._records:
            event = self._event(decode(text))
            if event is not None:
                self.ended = event.kind is END
                return event
            if whole:
                self.skipped += 1
            else:
                self.cut = True
        raise StopIteration

    def _event(self, record: dict[str, Any] | None) -> Event | None:
        if record is None:
            return None
        time_ns, name, qpn, data = (record.get(key) for key in ("time_ns", "name", "qpn", "data"))
        if not _is_integer(time_ns) or not isinstance(name, str) or not isinstance(data, dict):
            return None
        if not (qpn is None or _is_integer(qpn)):
            return None
        kind = EVENTS.get(name)
        if kind is not None and not all(f.name in data and f.allows(data[f.name]) for f in kind.fields):
            return None
        if kind is CLOCK:
            self._offset = data["realtime_offset_ns"]
        realtime = None if self._offset is None else time_ns + self._offset
        return Event(time_ns, name, qpn, data, kind, realtime)


def read_trace(stream: BinaryIO) -> tuple[Header, Events]:
    """The header of a trace and its events, read as they are asked for.

    Records that are damaged or cut are passed over and counted. Raises CallerError when the stream is no trace, or one
    of a later format.
    """
    records = _records(stream)
    text, _ = next(records, (b"", False))
    header = _header(decode(text) or {})
    return header, Events(records, header)


def is_trace(beginning: bytes) -> bool:
    """Whether a file that begins with these bytes (16 are enough) is a trace."""
    return beginning.startswith(BEGINNING)


def is_trace_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a trace; one that cannot be read is none."""
    try:
        with open(path, "rb") as file:
            return is_trace(file.read(len(BEGINNING)))
    except OSError:
        return False


def _header(record: dict[str, Any]) -> Header:
    version, clock = record.get(MARK), record.get("clock")
    if not _is_integer(version) or not isinstance(clock, dict):
        raise CallerError("not a trace: the first record is no header of one (`mrc send --trace FILE` writes traces)")
    if version > VERSION:
        raise CallerError(f"a trace of format {version}, this release reads up to {VERSION}: use a later one")
    offset, uncertainty = clock.get("realtime_offset_ns"), clock.get("uncertainty_ns")
    return Header(
        title=str(record.get("title", "")),
        vantage_point=str(record.get("vantage_point", "")),
        generator=str(record.get("generator", "")),
        clock=str(clock.get("name", "")),
        realtime_offset_ns=offset if _is_integer(offset) else None,
        uncertainty_ns=uncertainty if _is_integer(uncertainty) else None,
    )


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _records(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """(text, whether it is all there) of each record; none of a stream that does not begin with one."""
    held, begun, too_long = bytearray(), False, False
    while chunk := stream.read(_CHUNK):
        if not begun and not chunk.startswith(RS):
            return
        *whole, rest = chunk.split(RS)
        for text in whole:
            if not too_long:
                held += text
            if held or too_long:
                yield bytes(held), True
            held.clear()
            begun, too_long = True, False
        if not too_long:
            held += rest
        if len(held) > _LONGEST_RECORD:
            held.clear()
            too_long = True
    if held or too_long:
        yield bytes(held), held.endswith(LF)
