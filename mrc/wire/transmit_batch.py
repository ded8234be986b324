"""Packets to send, each a row of bytes (`mrc.wire.rows`). They are appended one by one, and sealed together.

`batch.flat` with `row * HEADER_ROOM + BTH_AT` is a byte of one packet; `batch.fields(REQUEST_TS, 0, 3)["psn_word"]` is
a field of several.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire import octets
from mrc.wire.frames import DESTINATION, TEMPLATE, Frames
from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import (
    DONT_FRAGMENT,
    IPV4_HEADER,
    IPV4_ICRC_MASK,
    NO_OPTIONS,
    headers_to_send,
    mapped_rows,
    with_checksum,
)
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.payload import Payload
from mrc.wire.rows import HEADER_ROOM, I64, PAD_SHIFT, U8, UDP_AT, Fields

_ROOM, _TEMPLATE, _DESTINATION, _ICRC, _UDP_AT = HEADER_ROOM, TEMPLATE, DESTINATION, ICRC_LENGTH, UDP_AT
_SEED, _PAD_SHIFT, _CLASS_SHIFT, _TRAILER = ICRC_SEED, PAD_SHIFT, 20, 8
# Where in a packet: ip_plen, source and destination address, udp_len, flags.
_PLEN_AT, _SOURCE_AT, _DESTINATION_AT, _UDP_LENGTH_AT, _FLAGS_AT = 4, 8, 24, 44, 49
# The part of a packet that is masked ends with the BTH's reserved byte; over IPv4 it begins with the IPv4 header.
_HEAD = len(ICRC_MASK)
_MASK = memoryview(ICRC_MASK.tobytes())
_MASK_FROM_UDP = _MASK[UDP_AT:]
_MASK_IPV4 = memoryview(IPV4_ICRC_MASK.tobytes())
_MAPPED = 0xFFFF  # the third word of an IPv4-mapped address; the two before it are 0
_IPV4_START = NO_OPTIONS << 8
_IPV4_BYTES, _IPV4_FRAGMENT, _IPV4_UDP = IPV4_HEADER, DONT_FRAGMENT, 17
_NOTHING = Payload(memoryview(b""))
_ZEROS = memoryview(bytes(4))


class TransmitBatch:
    """Room for up to `capacity` packets to send. `count` of them are filled in.

    Per packet: a row of `headers` from the (inner) IP header on, of which `header_length` bytes count; where in the
    application's own memory the payload lies (`payload_address`, `payload_length`); the trailer (padding and ICRC,
    `trailer_length` bytes that end each 8-byte row of `trailers`); the local `port`; `destination`, a row of the
    sender's address table (28 bytes, a sockaddr_in6 or sockaddr_in); and the outer header's `traffic_class`. `flat` is
    `headers` as one run of bytes.
    """

    __slots__ = (
        "_addresses",
        "_classes",
        "_destinations",
        "_header_lengths",
        "_ipv4",
        "_offsets",
        "_payload_lengths",
        "_payloads",
        "_ports",
        "_trailer_lengths",
        "_trailers",
        "_writable",
        "capacity",
        "count",
        "destination",
        "flat",
        "header_length",
        "headers",
        "payload_address",
        "payload_length",
        "port",
        "traffic_class",
        "trailer_length",
        "trailers",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.headers: U8 = np.zeros((capacity, HEADER_ROOM), np.uint8)
        self.header_length: I64 = np.zeros(capacity, np.int64)
        self.payload_address: npt.NDArray[np.uint64] = np.zeros(capacity, np.uint64)
        self.payload_length: I64 = np.zeros(capacity, np.int64)
        self.trailers: U8 = np.zeros((capacity, _TRAILER), np.uint8)
        self.trailer_length: I64 = np.zeros(capacity, np.int64)
        self.port: I64 = np.zeros(capacity, np.int64)
        self.destination: U8 = np.zeros((capacity, DESTINATION), np.uint8)
        self.traffic_class: I64 = np.zeros(capacity, np.int64)
        # The same as views.
        self.flat = self._writable = self.headers.reshape(-1).data
        self._header_lengths = self.header_length.data
        self._addresses = self.payload_address.data
        self._payload_lengths = self.payload_length.data
        self._trailers = self.trailers.reshape(-1).data
        self._trailer_lengths = self.trailer_length.data
        self._ports = self.port.data
        self._destinations = self.destination.reshape(-1).data
        self._classes = self.traffic_class.data
        # What each payload is a part of, and where in it it begins.
        self._payloads = [_NOTHING] * capacity
        self._offsets = np.zeros(capacity, np.int64).data
        # The IPv4 header that a row stands for.
        self._ipv4 = memoryview(bytearray(IPV4_HEADER))

    @property
    def free(self) -> int:
        return self.capacity - self.count

    @property
    def payloads(self) -> list[memoryview]:
        """The payload of each packet."""
        return [self._payload(row) for row in range(self.count)]

    def _payload(self, row: int) -> memoryview:
        offset = self._offsets[row]
        return self._payloads[row].view[offset : offset + self._payload_lengths[row]]

    def clear(self) -> None:
        for row in range(self.count):
            self._payloads[row] = _NOTHING
        self.count = 0

    def fields(self, layout: np.dtype[np.void], start: int, stop: int) -> Fields:
        """Rows `start` to `stop` as one structured array to assign fields through."""
        return np.ndarray((stop - start,), layout, self.headers, start * HEADER_ROOM, (HEADER_ROOM,))

    def append(
        self,
        frames: Frames,
        way: int,
        traffic_class: int,
        header_length: int,
        payload: Payload = _NOTHING,
        offset: int = 0,
        length: int = 0,
    ) -> int:
        """Append a packet that goes one way of `frames`, with `length` bytes of `payload` from `offset` on. Returns its
        row.

        Lengths in the IP and UDP headers, the pad count and the traffic class are filled in here; the caller then
        writes opcode, QP, PSN and the extension headers: `header_length` counts all headers from the (inner) IP header
        on.
        """
        row = self.count
        self.count = row + 1
        at, pad = row * _ROOM, -length & 3
        inside = header_length + length + pad + _ICRC - _UDP_AT
        octets.copy(self.flat, at, frames.templates, way * _TEMPLATE, _TEMPLATE)
        octets.put32(self.flat, at, octets.u32(self.flat, at) + (traffic_class << _CLASS_SHIFT))
        octets.put16(self.flat, at + _PLEN_AT, inside)
        octets.put16(self.flat, at + _UDP_LENGTH_AT, inside)
        self.flat[at + _FLAGS_AT] |= pad << _PAD_SHIFT
        octets.copy(self._destinations, row * _DESTINATION, frames.destinations, way * _DESTINATION, _DESTINATION)
        self._ports[row] = frames.ports[way]
        self._classes[row] = traffic_class
        self._header_lengths[row] = header_length
        self._payloads[row] = payload
        self._offsets[row] = offset
        self._addresses[row] = payload.address + offset if length else 0
        self._payload_lengths[row] = length
        self._trailer_lengths[row] = pad + _ICRC
        return row

    def open_row(self, frames: Frames, way: int, traffic_class: int, header_length: int) -> int:
        """Append a packet without payload that goes one way of `frames`. Returns its row.

        Lengths and traffic class are filled in as by `append`.
        """
        row = self.count
        self.count = row + 1
        at, inside = row * _ROOM, header_length + _ICRC - _UDP_AT
        octets.copy(self.flat, at, frames.templates, way * _TEMPLATE, _TEMPLATE)
        octets.put32(self.flat, at, octets.u32(self.flat, at) + (traffic_class << _CLASS_SHIFT))
        octets.put16(self.flat, at + _PLEN_AT, inside)
        octets.put16(self.flat, at + _UDP_LENGTH_AT, inside)
        octets.copy(self._destinations, row * _DESTINATION, frames.destinations, way * _DESTINATION, _DESTINATION)
        self._ports[row] = frames.ports[way]
        self._classes[row] = traffic_class
        self._header_lengths[row] = header_length
        self._offsets[row] = self._addresses[row] = self._payload_lengths[row] = 0
        self._trailer_lengths[row] = _ICRC
        return row

    def write_headers(self, row: int, at: int, content: bytes | memoryview) -> None:
        """Overwrite the headers of a row from byte `at` on."""
        start = row * _ROOM + at
        self._writable[start : start + len(content)] = content

    def set_bits(self, row: int, at: int, bits: int) -> None:
        """Set these bits in byte `at` of the headers of a row."""
        self.flat[row * _ROOM + at] |= bits

    def seal(self, start: int = 0) -> None:
        """Write the ICRC of every packet from row `start` on. Call once the headers are final."""
        for row in range(start, self.count):
            self._seal(row)

    def _seal(self, row: int) -> None:
        at, payload = row * _ROOM, self._payloads[row]
        rest, pad = at + _HEAD, self._trailer_lengths[row] - _ICRC
        if octets.u64(self.flat, at + _SOURCE_AT) == 0 and octets.u32(self.flat, at + _SOURCE_AT + 8) == _MAPPED:
            self._put_ipv4(at)
            value = octets.masked_crc(self._ipv4, 0, _MASK_IPV4, _SEED)
            value = octets.masked_crc(self.flat, at + _UDP_AT, _MASK_FROM_UDP, value)
        else:
            value = octets.masked_crc(self.flat, at, _MASK, _SEED)
        value = octets.crc(self.flat, rest, at + self._header_lengths[row] - rest, value)
        value = octets.crc(payload.data, self._offsets[row], self._payload_lengths[row], value)
        if pad:
            value = octets.crc(_ZEROS, 0, pad, value)
        octets.put_le32(self._trailers, (row + 1) * _TRAILER - _ICRC, value)

    def _put_ipv4(self, at: int) -> None:
        """Write down the IPv4 header that the row from this byte on stands for; what is masked is left 0."""
        octets.put16(self._ipv4, 0, _IPV4_START)
        octets.put16(self._ipv4, 2, octets.u16(self.flat, at + _PLEN_AT) + _IPV4_BYTES)
        octets.put32(self._ipv4, 4, _IPV4_FRAGMENT)
        octets.put32(self._ipv4, 8, _IPV4_UDP << 16)
        octets.copy(self._ipv4, 12, self.flat, at + _SOURCE_AT + 12, 4)
        octets.copy(self._ipv4, 16, self.flat, at + _DESTINATION_AT + 12, 4)

    def packet(self, row: int) -> bytes:
        """One sealed packet, from the (inner) IP header to the ICRC."""
        at = row * HEADER_ROOM
        header = bytes(self._writable[at : at + self._header_lengths[row]])
        if mapped_rows(self.headers[row : row + 1])[0]:
            ipv4 = headers_to_send(self.headers[row : row + 1])[0]
            header = with_checksum(ipv4, self._classes[row]) + header[UDP_AT:]
        trailer = self.trailers[row, _TRAILER - self._trailer_lengths[row] :]
        return header + bytes(self._payload(row)) + trailer.tobytes()
