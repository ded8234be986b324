# SPDX-License-Identifier: BSD-2-Clause
"""Reassembly of IPv4 and IPv6 fragments.

A reassembled packet is the frame of the fragment that completes it, with the header from before fragmentation and the
whole payload. Length fields of a tunnel around it are raised to match.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass, field

from mrc.capture.walked import Walked

# Incomplete datagrams that are kept; the oldest are dropped first.
MOST_DATAGRAMS = 1024
MOST_BYTES = 16 << 20
_LONGEST = 0xFFFF
_IPV6_HEADER = 40
_FRAGMENT_HEADER = 8
# Where carriers have the length of what they carry, in two bytes.
_LENGTH_AT = {"ipv4": 2, "ipv6": 4, "udp": 4, "pppoe": 4}


@dataclass(slots=True)
class _Datagram:
    parts: dict[int, bytes] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    total: int | None = None
    size: int = 0
    protocol: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """A reassembled frame, and the numbers of the packets it was made of."""

    data: bytes
    numbers: tuple[int, ...]


class Fragments:
    """The incomplete datagrams of one capture."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[bytes, _Datagram] = OrderedDict()
        self._bytes = 0

    def add(self, walked: Walked, number: int) -> Whole | None:
        """Add packet `number`, a fragment. Return the packet it completes, or None while fragments are missing.

        A fragment that the capture cut is ignored. A fragment that contradicts earlier ones starts a new datagram:
        identifications are reused.
        """
        if walked.cut or walked.fragment_at is None or walked.short is not None:
            return None
        key, offset, more, payload, protocol = _fragment(walked)
        if offset + len(payload) > _LONGEST or not payload or (more and len(payload) % 8):
            return None
        datagram = self._waiting.get(key)
        if datagram is not None and not _fits(datagram, offset, more, payload):
            self._drop(key)
            datagram = None
        if datagram is None:
            datagram = self._waiting[key] = _Datagram()
        if offset not in datagram.parts:
            datagram.parts[offset] = payload
            datagram.numbers.append(number)
            datagram.size += len(payload)
            self._bytes += len(payload)
        if not more:
            datagram.total = offset + len(payload)
        if not offset:
            datagram.protocol = protocol
        if datagram.total is None or datagram.size < datagram.total:
            while len(self._waiting) > MOST_DATAGRAMS or self._bytes > MOST_BYTES:
                self._drop(next(iter(self._waiting)))
            return None
        self._drop(key)
        whole = b"".join(part for _, part in sorted(datagram.parts.items()))
        return Whole(_reassembled(walked, whole, datagram.protocol), tuple(datagram.numbers))

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._waiting.pop(key).size


def _fragment(walked: Walked) -> tuple[bytes, int, bool, bytes, int]:
    """What tells its datagram, its offset, whether more follow, its payload, and what the payload begins with."""
    data, ip, at = walked.data, walked.ip[-1], walked.fragment_at or 0
    if data[ip] >> 4 == 4:
        (place,) = struct.unpack_from(">H", data, ip + 6)
        begin = ip + (data[ip] & 0x0F) * 4
        key = b"4" + data[ip + 4 : ip + 6] + data[ip + 9 : ip + 10] + data[ip + 12 : ip + 20]
        return key, (place & 0x1FFF) * 8, bool(place & 0x2000), data[begin : walked.end], data[ip + 9]
    (place,) = struct.unpack_from(">H", data, at + 2)
    key = b"6" + data[at + 4 : at + 8] + data[ip + 8 : ip + 40]
    return key, place & 0xFFF8, bool(place & 1), data[at + _FRAGMENT_HEADER : walked.end], data[at]


def _fits(datagram: _Datagram, offset: int, more: bool, payload: bytes) -> bool:
    """Whether a fragment is new to the datagram, or the very same again."""
    end = offset + len(payload)
    if datagram.total is not None and (end > datagram.total or more == (end == datagram.total)):
        return False
    if offset in datagram.parts:
        return datagram.parts[offset] == payload
    if not more and any(begin >= end for begin in datagram.parts):
        return False
    return all(end <= begin or begin + len(part) <= offset for begin, part in datagram.parts.items())


def _reassembled(walked: Walked, payload: bytes, protocol: int) -> bytes:
    data, ip, at = walked.data, walked.ip[-1], walked.fragment_at or 0
    if data[ip] >> 4 == 4:
        head = bytearray(data[: ip + (data[ip] & 0x0F) * 4])
        _lengthen(head, ip + 2, len(head) - ip + len(payload))
        head[ip + 6 : ip + 8] = bytes((data[ip + 6] & 0xC0, 0))
        head[ip + 10 : ip + 12] = bytes(2)
        words = struct.unpack(f">{(len(head) - ip) // 2}H", head[ip:])
        head[ip + 10 : ip + 12] = (0xFFFF - (sum(words) - 1) % 0xFFFF - 1).to_bytes(2, "big")
    else:
        head = bytearray(data[:at])
        head[_points_at(data, ip, at)] = protocol
        _lengthen(head, ip + 4, at - ip - _IPV6_HEADER + len(payload))
    more = len(head) + len(payload) - walked.end
    for name, begin in walked.layers:
        if begin < ip and name in _LENGTH_AT:
            place = begin + _LENGTH_AT[name]
            _lengthen(head, place, int.from_bytes(head[place : place + 2], "big") + more)
    return bytes(head) + payload


def _points_at(data: bytes, ip: int, fragment_at: int) -> int:
    """Where the header before the fragment header names it."""
    named_at, at = ip + 6, ip + _IPV6_HEADER
    while at < fragment_at:
        named_at, at = at, at + 8 + 8 * data[at + 1]
    return named_at


def _lengthen(head: bytearray, at: int, length: int) -> None:
    # 0 is what a length says that does not fit.
    head[at : at + 2] = (length if length <= _LONGEST else 0).to_bytes(2, "big")
