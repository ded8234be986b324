# SPDX-License-Identifier: BSD-2-Clause
"""What Wireshark exports as JSON with bytes: `tshark -T json -x` ("Export Packet Dissections", "As JSON"), or -T ek -x.

The first is a list of objects, one a packet. The second has an object a line, and between them others, for
Elasticsearch, that say where it belongs. Of each packet only the bytes (`frame_raw`), the lengths, the time and the
link type are read; all else is dissected anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from mrc.capture.frames import LATEST_NS, NO_TIME, RUN_PACKETS, TAIL, Frames, Record
from mrc.capture.source import Source
from mrc.errors import MrcError
from mrc.untrusted import MOST_DIGITS, NotJson, parse_json, quoted

# Wireshark's own numbers for encapsulations (wiretap/wtap.h) -> LINKTYPE numbers.
_LINK_TYPES = {1: 1, 4: 9, 7: 101, 15: 0, 25: 113, 129: 228, 130: 229, 139: 51, 174: 108, 210: 276}
_UNKNOWN_LINK = 147  # LINKTYPE_USER0: bytes of which nobody says what they are
_MOST = 16 << 20  # of the JSON of one packet
_RUN_BYTES = 1 << 20
# A bracket, or a string. One whose end has not been read yet is gone on with, not looked at from its beginning again.
_STEP = re.compile(rb'[{}]|"(?:[^"\\]++|\\.)*+(?P<end>"?)', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(?P<end>"?)', re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*")
_LAYERS = "_source.layers"
_INDEX = re.compile(rb'\{\s*"index"\s*:')
_LATEST_S = LATEST_NS // 1_000_000_000
_QUOTE, _OPEN = b'"{'


def read_exported(source: Source) -> Iterator[Frames]:
    """The packets of an export. Raises PeerError, after the last whole packet, where the text is damaged or ends."""
    source.at += len(source.peek(source.unread)) - len(source.peek(source.unread).lstrip())
    is_list = source.peek(1) == b"["
    source.at += is_list
    records: list[Record] = []
    size = number = 0
    failure: MrcError | None = None
    while failure is None:
        try:
            text = _next_object(source, is_list)
            if text is None:
                break
            if is_list or not _INDEX.match(text):
                number += 1
                records.append(_record(source, text, number, is_list))
            source.at += len(text)
            if not records:
                continue
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


def _next_object(source: Source, is_list: bool) -> bytes | None:
    """The text of the next object, which begins at the next unread byte; None at the end of the list."""
    while True:
        between = _BETWEEN.match(source.view, source.at, source.end)
        source.at = between.end() if between else source.at
        if source.unread:
            break
        if not source.fill(1):
            if not is_list:
                return None
            raise source.cut_short("the list of packets", 0, source.offset + 1)
    first = source.peek(1)
    if first == b"]" and is_list:
        return None
    if first != b"{":
        raise source.damaged(f"{first!r} where a packet's JSON object should begin")
    depth, done, in_string = 0, 0, False
    while True:
        # As far as was read, then read on and go on from there.
        while step := (_REST_OF_STRING.match if in_string else _STEP.search)(source.view, source.at + done, source.end):
            done = step.end() - source.at
            byte = source.view[step.start()] if step.end() > step.start() else 0
            if in_string or byte == _QUOTE:
                in_string = not step["end"]
                if in_string:
                    break
            else:
                depth += 1 if byte == _OPEN else -1
                if not depth:
                    return source.peek(done)
        have = source.unread
        if not in_string:
            done = have
        if have > _MOST:
            raise source.damaged(f"the JSON of one packet has more than {_MOST} bytes; it begins")
        if source.fill(have + 1) == have:
            raise source.cut_short("the packet's JSON object", source.offset, have + 1)


def _record(source: Source, text: bytes, number: int, is_list: bool) -> Record:
    where, prefix, option = (_LAYERS, "frame.", "json") if is_list else ("layers", "frame_frame_", "ek")
    try:
        document = parse_json(text, f"packet {number}", _MOST)
        for key in where.split("."):
            if not isinstance(document, dict) or key not in document:
                raise source.damaged(f"packet {number} has no {where}")
            document = document[key]
        layers = document
        if "frame_raw" not in layers:
            raise source.damaged(f"packet {number} comes without its bytes (export with tshark -T {option} -x)")
        raw = layers["frame_raw"]
        data = bytes.fromhex(raw[0] if isinstance(raw, list) else raw)
        frame = layers.get("frame", {})
        wire_length = _whole(frame.get(f"{prefix}len", len(data)), "frame.len")
        encapsulation = frame.get(f"{prefix}encap_type", frame.get("frame.encap_type_tree", "1"))
        link_type = _LINK_TYPES.get(_whole(encapsulation, "frame.encap_type"), _UNKNOWN_LINK)
        time_ns = _time_ns(frame.get(f"{prefix}time_epoch"))
    except NotJson as error:
        raise source.damaged(str(error)) from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        why = f"{type(error).__name__}: {error}"
        raise source.damaged(f"packet {number}: its JSON object cannot be read ({why})") from None
    if not 0 <= wire_length < 1 << 32:
        raise source.damaged(f"packet {number}: {where}.frame.{prefix}len is {quoted(wire_length)}")
    return Record(time_ns, data, wire_length, link_type)


def _whole(value: Any, name: str) -> int:
    """The whole number of a field, which Wireshark writes as text. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > MOST_DIGITS:
        raise ValueError(f"{name} is {quoted(value)}, not a whole number")
    return int(value)


def _time_ns(text: Any) -> int | None:
    """Nanoseconds since the epoch of `1700000000.123456789`, or of the ISO form that newer versions print."""
    if text is None:
        return None
    if not isinstance(text, str | int | float) or len(str(text)) > MOST_DIGITS:
        raise ValueError(f"frame.time_epoch is {quoted(text)}, not a time")
    try:
        seconds = Decimal(text)
        if not seconds.is_finite() or seconds.copy_abs() > _LATEST_S:
            return None
        time_ns = int(seconds * 1_000_000_000)
    except InvalidOperation:
        whole, _, fraction = str(text).rstrip("Z").partition(".")
        seconds_since = int(datetime.fromisoformat(whole + "+00:00").timestamp())
        time_ns = seconds_since * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
    return time_ns if -LATEST_NS <= time_ns <= LATEST_NS else None


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
