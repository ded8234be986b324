# SPDX-License-Identifier: BSD-2-Clause
"""The blocks of a pcapng file: section header, interface description, and the three kinds of packet block.

Layouts: the pcapng specification (draft-ietf-opsawg-pcapng), sections 4.1 to 4.4 and appendix A. Other blocks are
passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrc.capture.frames import HIGHEST_SNAPLEN, LATEST_NS, NO_TIME, RUN_PACKETS, Frames
from mrc.capture.source import Source
from mrc.errors import MrcError

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_OBSOLETE_PACKET = 2
_SIMPLE_PACKET = 3
_ENHANCED_PACKET = 6
_ORDER_AT, _BYTE_ORDER_MAGIC = 8, 0x1A2B3C4D
_FRAME = 12  # type and length in front, the length again at the end
_ENHANCED_LENGTH = 32  # without the packet
_LONGEST_BLOCK = HIGHEST_SNAPLEN + 4096
_TIME_RESOLUTION, _TIME_OFFSET = 9, 14
_BILLION = 1_000_000_000

# Start in the buffer, bytes kept, bytes on the wire, time, link type: a row of Frames.
_Row = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Interface:
    """`units` is how many of its time units make a second, `offset_s` what to add, in seconds."""

    link_type: int
    snaplen: int
    units: int
    offset_s: int

    @property
    def digits(self) -> int:
        """How many digits of a second its times have, at most those of a nanosecond."""
        return next((digits for digits in range(1, 9) if self.units == 10**digits), 0 if self.units == 1 else 9)

    def time_ns(self, high: int, low: int) -> int:
        time_ns = (high << 32 | low) * _BILLION // self.units + self.offset_s * _BILLION
        return time_ns if -LATEST_NS <= time_ns <= LATEST_NS else NO_TIME


class _Section:
    """What the packets that follow are read by: byte order and interfaces."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.interfaces: list[_Interface] = []
        self.digits = 0
        self.word = struct.Struct(order + "I").unpack_from
        self.head = struct.Struct(order + "II").unpack_from
        self.enhanced = struct.Struct(order + "IIIII").unpack_from
        self.enhanced_block = struct.Struct(order + "IIIIIII").unpack_from
        self.obsolete = struct.Struct(order + "H2xIIII").unpack_from


def read_pcapng(source: Source) -> Iterator[Frames]:
    """The packets of a pcapng stream. Raises as `read_frames` says; nothing is read before the first packet is asked
    for."""
    section = _Section("<")
    failure: MrcError | None = None
    length = 1
    digits = 0
    while length:
        rows: list[_Row] = []
        try:
            while len(rows) < RUN_PACKETS:
                at, length = _next_block(source, section, wait=not rows)
                if not length:
                    break
                section = _block(source, section, at, length, rows)
                source.at = at + length
                digits = max(digits, section.digits)
                _enhanced_blocks(source, section, rows)
        except MrcError as error:
            failure = error
        if rows:
            yield _run(source, rows, digits)
            length = 1
        if failure is not None:
            # What was whole came before it.
            raise failure


def _run(source: Source, rows: list[_Row], digits: int) -> Frames:
    start, kept, wire_length, time_ns, link_type = np.array(rows, np.int64).T.copy()
    return Frames(source.array, start, kept, wire_length, time_ns, link_type, digits)


def _next_block(source: Source, section: _Section, wait: bool) -> tuple[int, int]:
    """Where the next block lies in the buffer and how long it is; length 0 when there is none, or when it is not yet
    read and nobody may `wait` for it because packets of this buffer are still to be handed out."""
    if source.end - source.at < _FRAME:
        if not wait:
            return source.at, 0
        start = source.offset
        if source.fill(_FRAME) < _FRAME:
            if source.unread:
                raise source.cut_short("the block", start, _FRAME)
            return source.at, 0
    at = source.at
    kind, length = section.head(source.view, at)
    if kind == _SECTION_HEADER:
        order = _byte_order(source, at)
        length = struct.unpack_from(order + "I", source.view, at + 4)[0]
    if length < _FRAME or length % 4 or length > _LONGEST_BLOCK:
        raise source.damaged(f"a block cannot have the length {length}, given", source.base + at + 4)
    if source.end - at < length:
        if not wait:
            return at, 0
        start = source.offset
        if source.fill(length) < length:
            raise source.cut_short("the block", start, length)
    return source.at, length


def _block(source: Source, section: _Section, at: int, length: int, rows: list[_Row]) -> _Section:
    """Read one whole block; the section that packets after it belong to."""
    view, start = source.view, source.base + at
    kind = section.word(view, at)[0]
    if kind == _SECTION_HEADER:
        section = _Section(_byte_order(source, at))
    if section.word(view, at + length - 4)[0] != length:
        raise source.damaged("a block does not end with the length it began with,", start + length - 4)
    if kind == _INTERFACE:
        interface = _interface(source, section.order, view[at + 8 : at + length - 4].tobytes(), start)
        section.interfaces.append(interface)
        section.digits = max(section.digits, interface.digits)
    elif kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET, _SIMPLE_PACKET):
        rows.append(_packet(source, section, kind, at, length))
    return section


def _enhanced_blocks(source: Source, section: _Section, rows: list[_Row]) -> None:
    """Take the enhanced packet blocks that follow one another, whole and without fault: what most of a file is."""
    view, at, end = source.view, source.at, source.end
    block, word, interfaces = section.enhanced_block, section.word, section.interfaces
    while end - at >= _ENHANCED_LENGTH and len(rows) < RUN_PACKETS:
        kind, length, number, high, low, captured, wire_length = block(view, at)
        whole = kind == _ENHANCED_PACKET and _ENHANCED_LENGTH <= length <= end - at and not length % 4
        if not whole or number >= len(interfaces) or captured > length - _ENHANCED_LENGTH:
            break
        if word(view, at + length - 4)[0] != length or length > _LONGEST_BLOCK:
            break
        interface = interfaces[number]
        rows.append((at + 28, captured, wire_length, interface.time_ns(high, low), interface.link_type))
        at += length
    source.at = at


def _byte_order(source: Source, at: int) -> str:
    for order in "<>":
        if struct.unpack_from(order + "I", source.view, at + _ORDER_AT)[0] == _BYTE_ORDER_MAGIC:
            return order
    raise source.damaged("a section header without its byte-order magic", source.base + at + _ORDER_AT)


def _interface(source: Source, order: str, body: bytes, start: int) -> _Interface:
    if len(body) < 8:
        raise source.damaged("an interface description of less than 20 bytes", start)
    link_type, snaplen = struct.unpack_from(order + "H2xI", body)
    units, offset_s, at = 1_000_000, 0, 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + length]
        if len(value) < length:
            raise source.damaged(f"an option says {length} bytes, more than its block has,", start + 8 + at)
        if code == 0:
            break
        if code == _TIME_RESOLUTION and length == 1:
            # The highest bit chooses between powers of 2 and of 10.
            units = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == _TIME_OFFSET and length == 8:
            offset_s = struct.unpack(order + "q", value)[0]
        at += 4 + (length + 3 & ~3)
    return _Interface(link_type, snaplen, units, offset_s)


def _packet(source: Source, section: _Section, kind: int, at: int, length: int) -> _Row:
    """A packet block of any kind; raises PeerError for one that cannot be."""
    view, start = source.view, source.base + at
    fixed = 4 if kind == _SIMPLE_PACKET else 20
    room = length - _FRAME - fixed
    if room < 0:
        raise source.damaged(f"a packet block of {length} bytes, too short for its fields,", start)
    if kind == _SIMPLE_PACKET:
        number, wire_length = 0, section.word(view, at + 8)[0]
    else:
        unpack = section.enhanced if kind == _ENHANCED_PACKET else section.obsolete
        number, high, low, captured, wire_length = unpack(view, at + 8)
    if number >= len(section.interfaces):
        raise source.damaged(f"a packet of interface {number}, which the file does not describe,", start)
    interface = section.interfaces[number]
    if kind == _SIMPLE_PACKET:
        captured = min(wire_length, interface.snaplen or wire_length, room)
    if captured > room:
        raise source.damaged(f"a packet block says {captured} bytes, more than it has,", start)
    time_ns = NO_TIME if kind == _SIMPLE_PACKET else interface.time_ns(high, low)
    return at + 8 + fixed, captured, wire_length, time_ns, interface.link_type
