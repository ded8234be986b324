# SPDX-License-Identifier: BSD-2-Clause
"""The framing of netlink messages and attributes (netlink(7), rtnetlink(7)), for the few kinds sent and read here.

A netlink socket takes and gives messages of a 16-byte header and a body; a body has a header of its kind's own, then
attributes. Both are padded to four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
ATTRIBUTE = struct.Struct("=HH")  # length, kind
LINK = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, interface, flags, changed flags
ADDRESS = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, prefix length, flags, scope, interface
SEQUENCE_AT = 8

ERROR, DONE = 2, 3
REQUEST, ACK, DUMP = 0x001, 0x004, 0x300
NESTED = 0x8000
# Of an attribute's kind, without the flags for nested ones and byte order.
_KIND = 0x3FFF


def message(kind: int, flags: int, body: bytes, sequence: int = 0) -> bytes:
    """One message, a request in any case; `sequence` numbers the answers."""
    return HEADER.pack(HEADER.size + len(body), kind, REQUEST | flags, sequence, 0) + body


def messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(kind, flags, sequence, body) of each message in what was received; ends where one makes no sense."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, at)
        if length < HEADER.size:
            return
        yield kind, flags, sequence, data[at + HEADER.size : at + length]
        at += (length + 3) & ~3


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def text(kind: int, content: str) -> bytes:
    """An attribute that is text, which ends with a zero."""
    return attribute(kind, content.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """An attribute that is a number of 32 bits, in this machine's order."""
    return attribute(kind, struct.pack("=I", value))


def attributes(data: bytes, at: int = 0, end: int | None = None) -> dict[int, bytes]:
    """The attributes between two places, by kind; of several of one kind the last."""
    return dict(list_of(data, at, end))


def list_of(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """(kind, payload) of each attribute between two places; ends where one makes no sense."""
    end = len(data) if end is None else end
    while at + ATTRIBUTE.size <= end:
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size:
            return
        yield kind & _KIND, data[at + ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
