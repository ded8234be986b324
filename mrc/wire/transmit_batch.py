# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Packets to send, each a row of bytes (`mrc.wire.rows`). They are appended one by one, and sealed together.

`batch.flat` with `row * HEADER_ROOM + BTH_AT` is a byte of one packet; `batch.fields(REQUEST_TS, 0, 3)["psn_word"]` is
a field of several.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from mrc.wire import octets
from mrc.wire.columns import array_of, rows_of
from mrc.wire.compiled import const_u8s, i64s, public, python, u8s, u64s, unsigned
from mrc.wire.frames import DESTINATION, TEMPLATE, Frames
from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import (
    DONT_FRAGMENT,
    IPV4_HEADER,
    IPV4_ICRC_MASK,
    NO_OPTIONS,
    with_checksum,
)
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import HEADER_ROOM, PAD_SHIFT, UDP_AT, fields_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mrc.wire.fields import I64, U8, Fields

_CLASS_SHIFT, _TRAILER, _WORD = 20, 8, 8
# Where in a packet: ip_plen, source and destination address, udp_len, flags.
_PLEN_AT, _SOURCE_AT, _DESTINATION_AT = fields_at("ipv6", "plen src dst")
(_UDP_LENGTH_AT,) = fields_at("udp", "len")
(_FLAGS_AT,) = fields_at("bth", "se")
# The part of a packet that is masked ends with the BTH's reserved byte; over IPv4 it begins with the IPv4 header.
_HEAD = len(ICRC_MASK)
_MASK: const_u8s = memoryview(ICRC_MASK)
_MASK_FROM_UDP: const_u8s = _MASK[UDP_AT:]
_MASK_IPV4: const_u8s = memoryview(IPV4_ICRC_MASK)
_MAPPED = 0xFFFF  # the third word of an IPv4-mapped address; the two before it are 0
_MAPPED_LENGTH = 12
_MAPPED_START: bytes = _MAPPED.to_bytes(_MAPPED_LENGTH, "big")
_IPV4_START = NO_OPTIONS << 8
_IPV4_UDP = 17
_ZEROS: const_u8s = memoryview(bytes(4))


def _numbers(count: int) -> python[memoryview]:
    return memoryview(bytearray(count * _WORD)).cast("q")


class TransmitBatch:
    """Room for up to `capacity` packets to send. `count` of them are filled in.

    Per packet: a row of `headers` from the (inner) IP header on, of which `header_length` bytes count; where in the
    application's own memory the payload lies (`payload_address`, `payload_length`); the trailer (padding and ICRC,
    `trailer_length` bytes that end each 8-byte row of `trailers`); the local `port`; `destination`, a row of the
    sender's address table (28 bytes, a sockaddr_in6 or sockaddr_in); and the outer header's `traffic_class`. These are
    numpy's arrays. With `headers_only` packets are simulated: nobody reads their payload, and they have no ICRC. The
    same memory as runs of bytes: `flat`, `flat_trailers`, `flat_destinations`; as columns of
    numbers: `header_lengths`, `payload_addresses`, `payload_lengths`, `trailer_lengths`, `ports`, `classes`.
    """

    _writable: memoryview
    flat: u8s

    def __init__(self, capacity: int, *, headers_only: bool = False) -> None:
        self.capacity = capacity
        self.headers_only = headers_only
        self.count: public[int] = 0
        self.flat = self._writable = memoryview(bytearray(capacity * HEADER_ROOM))
        self.header_lengths: i64s = _numbers(capacity)
        self.payload_addresses: u64s = memoryview(bytearray(capacity * _WORD)).cast("Q")
        self.payload_lengths: i64s = _numbers(capacity)
        self.flat_trailers: u8s = memoryview(bytearray(capacity * _TRAILER))
        self.trailer_lengths: i64s = _numbers(capacity)
        self.ports: i64s = _numbers(capacity)
        self.flat_destinations: u8s = memoryview(bytearray(capacity * DESTINATION))
        self.classes: i64s = _numbers(capacity)
        # The IPv4 header that a row stands for.
        self._ipv4: u8s = memoryview(bytearray(IPV4_HEADER))

    @property
    def headers(self) -> U8:
        return rows_of(self.flat, HEADER_ROOM)

    @property
    def header_length(self) -> I64:
        return array_of(self.header_lengths)

    @property
    def payload_address(self) -> npt.NDArray[np.uint64]:
        return array_of(self.payload_addresses)

    @property
    def payload_length(self) -> I64:
        return array_of(self.payload_lengths)

    @property
    def trailers(self) -> U8:
        return rows_of(self.flat_trailers, _TRAILER)

    @property
    def trailer_length(self) -> I64:
        return array_of(self.trailer_lengths)

    @property
    def port(self) -> I64:
        return array_of(self.ports)

    @property
    def destination(self) -> U8:
        return rows_of(self.flat_destinations, DESTINATION)

    @property
    def traffic_class(self) -> I64:
        return array_of(self.classes)

    @property
    def free(self) -> int:
        """How many more packets it has room for."""
        return self.capacity - self.count

    @property
    def payloads(self) -> list[memoryview]:
        """The payload of each packet."""
        return [self._payload(row) for row in range(self.count)]

    def _payload(self, row: int) -> python[memoryview]:
        length = self.payload_lengths[row]
        return (
            memoryview((ctypes.c_ubyte * length).from_address(self.payload_addresses[row]))
            if length
            else memoryview(b"")
        )

    def clear(self) -> python[None]:
        self.count = 0

    def fields(self, layout: np.dtype[np.void], start: int, stop: int) -> python[Fields]:
        """Rows `start` to `stop` as one structured array to assign fields through."""
        import numpy as np

        return np.ndarray((stop - start,), layout, self.headers, start * HEADER_ROOM, (HEADER_ROOM,))

    def append(
        self,
        frames: Frames,
        way: int,
        traffic_class: int,
        header_length: int,
        address: unsigned,
        length: int,
    ) -> int:
        """Append a packet that goes one way of `frames`, with `length` bytes of payload that lie at `address` and that
        the caller keeps alive. Returns its row.

        Lengths in the IP and UDP headers, the pad count and the traffic class are filled in here; the caller then
        writes opcode, QP, PSN and the extension headers: `header_length` counts all headers from the (inner) IP header
        on.
        """
        row = self.count
        self.count = row + 1
        at, pad = row * HEADER_ROOM, -length & 3
        inside = header_length + length + pad + ICRC_LENGTH - UDP_AT
        octets.copy(self.flat, at, frames.templates, way * TEMPLATE, TEMPLATE)
        octets.put32(self.flat, at, octets.u32(self.flat, at) + (traffic_class << _CLASS_SHIFT))
        octets.put16(self.flat, at + _PLEN_AT, inside)
        octets.put16(self.flat, at + _UDP_LENGTH_AT, inside)
        self.flat[at + _FLAGS_AT] |= pad << PAD_SHIFT
        octets.copy(self.flat_destinations, row * DESTINATION, frames.destinations, way * DESTINATION, DESTINATION)
        self.ports[row] = frames.ports[way]
        self.classes[row] = traffic_class
        self.header_lengths[row] = header_length
        self.payload_addresses[row] = address if length else 0
        self.payload_lengths[row] = length
        self.trailer_lengths[row] = pad + ICRC_LENGTH
        return row

    def open_row(self, frames: Frames, way: int, traffic_class: int, header_length: int) -> int:
        """`append` for a packet without payload."""
        return self.append(frames, way, traffic_class, header_length, 0, 0)

    def write_headers(self, row: int, at: int, content: bytes | memoryview) -> python[None]:
        """Overwrite the headers of a row from byte `at` on."""
        start = row * HEADER_ROOM + at
        self._writable[start : start + len(content)] = content

    def set_bits(self, row: int, at: int, bits: int) -> None:
        """Set these bits in byte `at` of the headers of a row."""
        self.flat[row * HEADER_ROOM + at] |= bits

    def seal(self, start: int) -> None:
        """Write the ICRC of every packet from row `start` on. Call once the headers are final."""
        if self.headers_only:
            return
        for row in range(start, self.count):
            self._seal(row)

    def _seal(self, row: int) -> None:
        at = row * HEADER_ROOM
        rest, pad = at + _HEAD, self.trailer_lengths[row] - ICRC_LENGTH
        if octets.u64(self.flat, at + _SOURCE_AT) == 0 and octets.u32(self.flat, at + _SOURCE_AT + 8) == _MAPPED:
            self._put_ipv4(at)
            value = octets.masked_crc(self._ipv4, 0, _MASK_IPV4, ICRC_SEED)
            value = octets.masked_crc(self.flat, at + UDP_AT, _MASK_FROM_UDP, value)
        else:
            value = octets.masked_crc(self.flat, at, _MASK, ICRC_SEED)
        value = octets.crc(self.flat, rest, at + self.header_lengths[row] - rest, value)
        if self.payload_lengths[row]:
            value = octets.crc_at(self.payload_addresses[row], self.payload_lengths[row], value)
        if pad:
            value = octets.crc(_ZEROS, 0, pad, value)
        octets.put_le32(self.flat_trailers, (row + 1) * _TRAILER - ICRC_LENGTH, value)

    def _put_ipv4(self, at: int) -> None:
        """Write down the IPv4 header that the row from this byte on stands for; what is masked is left 0."""
        octets.put16(self._ipv4, 0, _IPV4_START)
        octets.put16(self._ipv4, 2, octets.u16(self.flat, at + _PLEN_AT) + IPV4_HEADER)
        octets.put32(self._ipv4, 4, DONT_FRAGMENT)
        octets.put32(self._ipv4, 8, _IPV4_UDP << 16)
        octets.copy(self._ipv4, 12, self.flat, at + _SOURCE_AT + 12, 4)
        octets.copy(self._ipv4, 16, self.flat, at + _DESTINATION_AT + 12, 4)

    def packet(self, row: int) -> python[bytes]:
        """One sealed packet, from the (inner) IP header to the ICRC."""
        at, end = row * HEADER_ROOM, (row + 1) * _TRAILER
        header = bytes(self._writable[at : at + self.header_lengths[row]])
        if header[_SOURCE_AT : _SOURCE_AT + _MAPPED_LENGTH] == _MAPPED_START:
            from mrc.wire.header_rows import headers_to_send

            ipv4 = headers_to_send(self.headers[row : row + 1])[0]
            header = with_checksum(ipv4.tobytes(), self.classes[row]) + header[UDP_AT:]
        return header + bytes(self._payload(row)) + bytes(self.flat_trailers[end - self.trailer_lengths[row] : end])
