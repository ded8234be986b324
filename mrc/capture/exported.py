"""What Wireshark exports as JSON with bytes: `tshark -T json -x`, "Export Packet Dissections", "As JSON".

A list of objects, one a packet. Of each only the bytes (`frame_raw`), the lengths, the time and the link type are read;
all else is dissected anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from mrc.capture.frames import LATEST_NS, NO_TIME, RUN_PACKETS, TAIL, Frames, Record
from mrc.capture.source import Source
from mrc.errors import MrcError

# Wireshark's own numbers for encapsulations (wiretap/wtap.h) -> LINKTYPE numbers.
_LINK_TYPES = {1: 1, 7: 101, 25: 113, 129: 228, 130: 229, 210: 276}
_UNKNOWN_LINK = 147  # LINKTYPE_USER0: bytes of which nobody says what they are
_MOST = 64 << 20  # of the JSON of one packet
_RUN_BYTES = 1 << 20
_STEP = re.compile(rb'[{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*")


def read_exported(source: Source) -> Iterator[Frames]:
    """The packets of an export. Raises PeerError, after the last whole packet, where the text is damaged or ends."""
    source.at += len(source.peek(source.unread)) - len(source.peek(source.unread).lstrip())
    source.at += 1  # the bracket that read_frames looked for
    records: list[Record] = []
    size = 0
    failure: MrcError | None = None
    while failure is None:
        try:
            text = _next_object(source)
            if text is None:
                break
            records.append(_record(source, text))
            source.at += len(text)
        except MrcError as error:
            failure = error
            break
        size += len(records[-1].data)
        if len(records) == RUN_PACKETS or size > _RUN_BYTES:
            yield _run(records)
            records, size = [], 0
    if records:
        yield _run(records)
    if failure is not None:
        raise failure


def _next_object(source: Source) -> bytes | None:
    """The text of the next object, which begins at the next unread byte; None at the end of the list."""
    while True:
        between = _BETWEEN.match(source.view, source.at, source.end)
        source.at = between.end() if between else source.at
        if source.unread:
            break
        if not source.fill(1):
            raise source.cut_short("the list of packets", 0, source.offset + 1)
    first = source.peek(1)
    if first == b"]":
        return None
    if first != b"{":
        raise source.damaged(f"{first!r} where a packet's JSON object should begin")
    depth, done = 0, 0
    while True:
        # Up to an unfinished string or the end of what was read; then read on and go on from there.
        for step in _STEP.finditer(source.view, source.at + done, source.end):
            done = step.end() - source.at
            byte = step[0]
            depth += (byte == b"{") - (byte == b"}")
            if not depth:
                return source.peek(done)
        have = source.unread
        if have > _MOST:
            raise source.damaged(f"the JSON of one packet has more than {_MOST} bytes; it begins")
        if source.fill(have + 1) == have:
            raise source.cut_short("the packet's JSON object", source.offset, have + 1)


def _record(source: Source, text: bytes) -> Record:
    try:
        layers = json.loads(text)["_source"]["layers"]
        raw = layers["frame_raw"]
        data = bytes.fromhex(raw[0] if isinstance(raw, list) else raw)
        frame = layers.get("frame", {})
        wire_length = int(frame.get("frame.len", len(data)))
        encapsulation = frame.get("frame.encap_type", frame.get("frame.encap_type_tree", "1"))
        link_type = _LINK_TYPES.get(int(encapsulation), _UNKNOWN_LINK)
        time_ns = _time_ns(frame.get("frame.time_epoch"))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        if isinstance(error, KeyError) and error.args == ("frame_raw",):
            raise source.damaged("a packet without its bytes (export with tshark -T json -x)") from None
        raise source.damaged(f"a packet's JSON object cannot be read ({type(error).__name__}: {error})") from None
    if not 0 <= wire_length < 1 << 32:
        raise source.damaged(f"a packet of {wire_length} bytes")
    return Record(time_ns, data, wire_length, link_type)


def _time_ns(text: Any) -> int | None:
    """Nanoseconds since the epoch of `1700000000.123456789`, or of the ISO form that newer versions print."""
    if text is None:
        return None
    try:
        seconds = Decimal(text)
        time_ns = int(seconds * 1_000_000_000) if seconds.is_finite() else None
    except InvalidOperation:
        whole, _, fraction = str(text).rstrip("Z").partition(".")
        seconds_since = int(datetime.fromisoformat(whole + "+00:00").timestamp())
        time_ns = seconds_since * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
    return time_ns if time_ns is not None and -LATEST_NS <= time_ns <= LATEST_NS else None


def _run(records: list[Record]) -> Frames:
    kept = np.array([len(record.data) for record in records], np.int64)
    data = np.frombuffer(b"".join([*(record.data for record in records), bytes(TAIL)]), np.uint8)
    return Frames(
        data,
        np.cumsum(kept) - kept,
        kept,
        np.array([record.wire_length for record in records], np.int64),
        np.array([NO_TIME if record.time_ns is None else record.time_ns for record in records], np.int64),
        np.array([record.link_type for record in records], np.int64),
    )
