"""The blocks of a pcapng file: section header, interface description, and the three kinds of packet block.

Layouts: the pcapng specification (draft-ietf-opsawg-pcapng), sections 4.1 to 4.4 and appendix A. Other blocks are
passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mrc.capture.files import HIGHEST_SNAPLEN, Record, Source

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_OBSOLETE_PACKET = 2
_SIMPLE_PACKET = 3
_ENHANCED_PACKET = 6
_ORDER_AT, _BYTE_ORDER_MAGIC = 8, 0x1A2B3C4D
_FRAME = 12  # type and length in front, the length again at the end
_TIME_RESOLUTION, _TIME_OFFSET = 9, 14
_BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Interface:
    """`units` is how many of its time units make a second, `offset_s` what to add, in seconds."""

    link_type: int
    snaplen: int
    units: int
    offset_s: int

    def time_ns(self, high: int, low: int) -> int:
        return (high << 32 | low) * _BILLION // self.units + self.offset_s * _BILLION


def read_pcapng(source: Source) -> Iterator[Record]:
    """The packets of a pcapng stream. Raises as `read_capture` says; nothing is read before the first packet is asked
    for."""
    order = "<"
    interfaces: list[_Interface] = []
    while True:
        start = source.offset
        if source.fill(_FRAME) < _FRAME:
            if source.buffer:
                raise source.cut_short("the block", start, _FRAME)
            return
        kind = struct.unpack_from(order + "I", source.buffer)[0]
        if kind == _SECTION_HEADER:
            order = _byte_order(source, start)
            interfaces = []
        length = struct.unpack_from(order + "I", source.buffer, 4)[0]
        if length < _FRAME or length % 4 or length > HIGHEST_SNAPLEN + 4096:
            raise source.damaged(f"a block cannot have the length {length}, given", start + 4)
        block = source.take(length)
        if block is None:
            raise source.cut_short("the block", start, length)
        if struct.unpack_from(order + "I", block, length - 4)[0] != length:
            raise source.damaged("a block does not end with the length it began with,", start + length - 4)
        body = block[8:-4]
        if kind == _INTERFACE:
            interfaces.append(_interface(source, order, body, start))
        elif kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET, _SIMPLE_PACKET):
            yield _packet(source, order, kind, body, interfaces, start)


def _byte_order(source: Source, start: int) -> str:
    for order in "<>":
        if struct.unpack_from(order + "I", source.buffer, _ORDER_AT)[0] == _BYTE_ORDER_MAGIC:
            return order
    raise source.damaged("a section header without its byte-order magic", start + _ORDER_AT)


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


def _packet(source: Source, order: str, kind: int, body: bytes, interfaces: list[_Interface], start: int) -> Record:
    fixed = 4 if kind == _SIMPLE_PACKET else 20
    if len(body) < fixed:
        raise source.damaged(f"a packet block of {len(body) + _FRAME} bytes, too short for its fields,", start)
    if kind == _SIMPLE_PACKET:
        number, (wire_length,) = 0, struct.unpack_from(order + "I", body)
    else:
        layout = "IIIII" if kind == _ENHANCED_PACKET else "H2xIIII"
        number, high, low, captured, wire_length = struct.unpack_from(order + layout, body)
    if number >= len(interfaces):
        raise source.damaged(f"a packet of interface {number}, which the file does not describe,", start)
    interface = interfaces[number]
    if kind == _SIMPLE_PACKET:
        captured = min(wire_length, interface.snaplen or wire_length, len(body) - fixed)
    if captured > len(body) - fixed:
        raise source.damaged(f"a packet block says {captured} bytes, more than it has,", start)
    time_ns = None if kind == _SIMPLE_PACKET else interface.time_ns(high, low)
    return Record(time_ns, body[fixed : fixed + captured], wire_length, interface.link_type)
