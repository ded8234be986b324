"""Many packets at once: the codec the endpoint runs on.

A packet is a row of bytes (`mrc.wire.rows`), so that a field of `n` packets is one strided array:
`batch.fields(REQUEST_TS)["psn_word"]`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import (
    IPV4_AT,
    IPV4_HEADER,
    IPV4_ICRC_MASK,
    NO_OPTIONS,
    headers_to_send,
    mapped_rows,
    shape_rows,
    with_checksum,
)
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import (
    COMMON,
    EXTENSION_AT,
    HEADER_ROOM,
    I64,
    PAD_SHIFT,
    U8,
    UDP_AT,
    Bools,
    Fields,
)

_ICRC_HEAD = len(ICRC_MASK)  # the masked part ends with the BTH's reserved byte
_ICRC_MASK_NUMBER = int.from_bytes(ICRC_MASK.tobytes(), "little")
# So few packets cost less one by one than arrays of them do.
_FEW = 12

_WORD, _IP_HEAD, _LENGTH, _ICRC = struct.Struct(">I"), struct.Struct(">IH"), struct.Struct(">H"), struct.Struct("<I")
_SOURCE_AT, _UDP_LENGTH_AT, _FLAGS_AT = 8, 44, 49
_MAPPED = bytes(8)  # how the source address of a packet over IPv4 begins
_DESTINATION = 28  # bytes


class ReceivedBatch:
    """`count` received packets in rows of a buffer the caller owns until the endpoint returns.

    `data` is C-contiguous uint8 [rows, room]; row `i` holds `length[i]` bytes from the IPv6 header to the ICRC.
    `port[i]` is the local port number it came in on, `traffic_class[i]` the outer header's, or the inner one's
    where there is no outer header. `ipv4`, where any came over IPv4, holds the 20-byte IPv4 header each row came with,
    zeros for the others.
    """

    __slots__ = ("_flat", "count", "data", "ipv4", "length", "port", "room", "traffic_class")

    def __init__(
        self, data: U8, count: int, length: I64, port: I64, traffic_class: I64, ipv4: U8 | None = None
    ) -> None:
        self.data = data
        self.count = count
        self.length = length[:count]
        self.port = port[:count]
        self.traffic_class = traffic_class[:count]
        self.ipv4 = ipv4
        self.room = data.shape[1]
        self._flat = data.reshape(-1).data

    @classmethod
    def from_packets(cls, packets: Sequence[bytes], port: int = 0, traffic_class: Sequence[int] = ()) -> ReceivedBatch:
        """A batch copied from whole packets (IPv6 header, or IPv4 header without options, to ICRC), for tests and
        simulated networks."""
        ipv4 = np.zeros((len(packets), IPV4_HEADER), np.uint8)
        rows = []
        for header, packet in zip(ipv4, packets, strict=True):
            if packet[:1] == bytes((NO_OPTIONS,)) and len(packet) >= IPV4_HEADER:
                header[:] = np.frombuffer(packet, np.uint8, IPV4_HEADER)
                packet = bytes(UDP_AT) + packet[IPV4_HEADER:]
            rows.append(packet)
        room = max(HEADER_ROOM, *map(len, rows)) if rows else HEADER_ROOM
        data = np.zeros((len(rows), room), np.uint8)
        for row, packet in zip(data, rows, strict=True):
            row[: len(packet)] = np.frombuffer(packet, np.uint8)
        over_ipv4 = np.flatnonzero(ipv4[:, 0])
        if len(over_ipv4):
            shaped = data[over_ipv4, :UDP_AT]
            shape_rows(shaped, ipv4[over_ipv4])
            data[over_ipv4, :UDP_AT] = shaped
        lengths = np.array([len(packet) for packet in rows], np.int64)
        inner = (data[:, 0].astype(np.int64) << 4 | data[:, 1] >> 4) & 0xFF
        outer = np.array(traffic_class, np.int64) if len(traffic_class) else inner
        ports = np.full(len(packets), port, np.int64)
        return cls(data, len(packets), lengths, ports, outer, ipv4 if len(over_ipv4) else None)

    def fields(self, layout: np.dtype[np.void]) -> Fields:
        """All rows as one structured array of `layout`; nothing is copied."""
        return np.ndarray((self.count,), layout, self.data, 0, (self.room,))

    def view(self, row: int, start: int, stop: int) -> memoryview:
        """Bytes `start` to `stop` of one row."""
        base = row * self.room
        return self._flat[base + start : base + stop]

    def packet(self, row: int) -> bytes:
        """The packet of one row as it came, from the (inner) IP header to the ICRC."""
        if self.ipv4 is not None and self.ipv4[row, 0]:
            return bytes(self.ipv4[row]) + bytes(self.view(row, UDP_AT, int(self.length[row])))
        return bytes(self.view(row, 0, int(self.length[row])))

    def icrc_ok(self, rows: I64) -> Bools:
        """Whether the ICRC of each of these rows (at least a BTH and an ICRC long) is right."""
        lengths = self.length[rows]
        heads = self.data[rows, :_ICRC_HEAD] | ICRC_MASK
        begins = np.arange(0, len(rows) * _ICRC_HEAD, _ICRC_HEAD)
        ends = begins + _ICRC_HEAD
        if self.ipv4 is not None:
            begins += _put_ipv4(heads, self.ipv4[rows])
        starts = rows * self.room
        stops = starts + (lengths - ICRC_LENGTH)
        flat_heads, flat = heads.reshape(-1).data, self._flat
        crc, seed = crc32, ICRC_SEED
        of_heads = map(
            crc,
            [flat_heads[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)],
            repeat(seed),
        )
        rests = [flat[start:stop] for start, stop in zip((starts + _ICRC_HEAD).tolist(), stops.tolist(), strict=True)]
        computed = np.array(list(map(crc, rests, of_heads)), np.uint32)
        tail = self.data[rows[:, None], (lengths - ICRC_LENGTH)[:, None] + _ICRC_BYTES]
        return np.asarray(computed == tail.view("<u4")[:, 0])

    def icrc_right(self, row: int, length: int) -> bool:
        """`icrc_ok` for one packet of `length` bytes that came over IPv6."""
        flat, start = self._flat, row * self.room
        rest, end = start + _ICRC_HEAD, start + length - ICRC_LENGTH
        head = (int.from_bytes(flat[start:rest], "little") | _ICRC_MASK_NUMBER).to_bytes(_ICRC_HEAD, "little")
        return crc32(flat[rest:end], crc32(head, ICRC_SEED)) == int.from_bytes(flat[end : end + ICRC_LENGTH], "little")


class TransmitBatch:
    """Room for up to `capacity` packets to send. `count` of them are filled in.

    Per packet: a row of `headers` from the (inner) IP header on, of which `header_length` bytes count; the
    payload as a memoryview (`payloads`) of the application's own memory and its address; the trailer (padding and
    ICRC, `trailer_length` bytes that end each 8-byte row of `trailers`); the local `port`; `destination`, a row
    of the sender's address table (28 bytes, a sockaddr_in6 or sockaddr_in); and the outer header's `traffic_class`.
    """

    __slots__ = (
        "_flat_destinations",
        "_flat_headers",
        "_flat_trailers",
        "_source_high",
        "capacity",
        "count",
        "destination",
        "header_length",
        "headers",
        "payload_address",
        "payload_length",
        "payloads",
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
        self.payloads: list[memoryview] = []
        self.payload_address: npt.NDArray[np.uint64] = np.zeros(capacity, np.uint64)
        self.payload_length: I64 = np.zeros(capacity, np.int64)
        self.trailers: U8 = np.zeros((capacity, 8), np.uint8)
        self.trailer_length: I64 = np.zeros(capacity, np.int64)
        self.port: I64 = np.zeros(capacity, np.int64)
        self.destination: U8 = np.zeros((capacity, 28), np.uint8)
        self.traffic_class: I64 = np.zeros(capacity, np.int64)
        self._flat_headers = self.headers.reshape(-1).data
        self._flat_destinations = self.destination.reshape(-1).data
        self._flat_trailers = self.trailers.reshape(-1).data
        self._source_high = self.headers.view(np.uint64)[:, 1]

    @property
    def free(self) -> int:
        return self.capacity - self.count

    def clear(self) -> None:
        self.count = 0
        self.payloads.clear()

    def fields(self, layout: np.dtype[np.void], start: int, stop: int) -> Fields:
        """Rows `start` to `stop` as one structured array to assign fields through."""
        return np.ndarray((stop - start,), layout, self.headers, start * HEADER_ROOM, (HEADER_ROOM,))

    def append(
        self,
        template: bytes,
        port: int,
        destination: bytes,
        traffic_class: int,
        header_length: int,
        payload: memoryview | None = None,
        payload_address: int = 0,
    ) -> int:
        """`extend` by one packet, in plain numbers. Returns its row."""
        row = self.count
        self.count = row + 1
        length = len(payload) if payload is not None else 0
        pad = -length & 3
        at = row * HEADER_ROOM
        headers = self._flat_headers
        headers[at : at + EXTENSION_AT] = template
        inside = header_length + length + pad + (ICRC_LENGTH - UDP_AT)
        (word,) = _WORD.unpack_from(headers, at)
        _IP_HEAD.pack_into(headers, at, word + (traffic_class << 20), inside)
        _LENGTH.pack_into(headers, at + _UDP_LENGTH_AT, inside)
        headers[at + _FLAGS_AT] |= pad << PAD_SHIFT
        self.port[row] = port
        self._flat_destinations[row * _DESTINATION : (row + 1) * _DESTINATION] = destination
        self.traffic_class[row] = traffic_class
        self.header_length[row] = header_length
        self.payloads.append(_NOTHING if payload is None else payload)
        self.payload_address[row] = payload_address
        self.payload_length[row] = length
        self.trailer_length[row] = pad + ICRC_LENGTH
        return row

    def write_headers(self, row: int, at: int, content: bytes | memoryview) -> None:
        """Overwrite the headers of a row from byte `at` on."""
        start = row * HEADER_ROOM + at
        self._flat_headers[start : start + len(content)] = content

    def extend(
        self,
        templates: U8,
        ports: I64,
        destinations: U8,
        traffic_class: I64 | int,
        extension_length: I64 | int,
        payloads: Sequence[memoryview] | None = None,
        payload_address: npt.NDArray[np.uint64] | None = None,
        payload_length: I64 | None = None,
    ) -> tuple[int, int]:
        """Append packets whose first 60 bytes are `templates` rows. Returns (start, stop) for `fields`.

        Lengths in the IP and UDP headers, the pad count and the traffic class are filled in here; the caller then
        assigns opcode, QP, PSN and the extension headers, `extension_length` bytes in all rows or in each.
        """
        start = self.count
        stop = start + len(templates)
        self.count = stop
        rows = slice(start, stop)
        self.headers[rows, :EXTENSION_AT] = templates
        self.port[rows] = ports
        self.destination[rows] = destinations
        self.traffic_class[rows] = traffic_class
        header_length = EXTENSION_AT + extension_length
        self.header_length[rows] = header_length
        fields = self.fields(COMMON, start, stop)
        if payloads is None or payload_length is None or payload_address is None:
            self.payloads.extend([_NOTHING] * (stop - start))
            self.payload_length[rows] = 0
            self.payload_address[rows] = 0
            pads: Any = 0
            total: Any = header_length + ICRC_LENGTH
        else:
            self.payloads.extend(payloads)
            self.payload_address[rows] = payload_address
            self.payload_length[rows] = payload_length
            pads = -payload_length & 3
            total = payload_length + pads + (header_length + ICRC_LENGTH)
            fields["flags"] |= (pads << PAD_SHIFT).astype(np.uint8)
        self.trailer_length[rows] = pads + ICRC_LENGTH
        fields["ip_plen"] = total - UDP_AT
        fields["udp_len"] = total - UDP_AT
        fields["ip_word"] += np.asarray(traffic_class, np.uint32) << np.uint32(20)
        return start, stop

    def seal(self, start: int = 0) -> None:
        """Write the ICRC of every packet from row `start` on. Call once the headers are final."""
        stop = self.count
        if start >= stop:
            return
        if stop - start <= _FEW and all(self._seal_row(row) for row in range(start, stop)):
            return
        heads = self.headers[start:stop].copy()
        begins = np.arange(0, (stop - start) * HEADER_ROOM, HEADER_ROOM)
        ends = begins + self.header_length[start:stop]
        # A mapped address begins with 64 zero bits.
        if not self._source_high[start:stop].all():
            begins += _put_ipv4(heads, _ipv4_headers(heads))
        heads[:, :_ICRC_HEAD] |= ICRC_MASK
        flat = heads.reshape(-1).data
        crc, seed = crc32, ICRC_SEED
        of_heads = map(
            crc, [flat[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], repeat(seed)
        )
        values = list(map(crc, self.payloads[start:stop], of_heads))
        pads = self.trailer_length[start:stop] - ICRC_LENGTH
        for row in np.flatnonzero(pads).tolist():
            values[row] = crc(_ZEROS[: int(pads[row])], values[row])
        crcs = np.array(values, np.uint32)
        self.trailers[start:stop, 4:] = crcs.astype("<u4").view(np.uint8).reshape(-1, 4)

    def _seal_row(self, row: int) -> bool:
        """Write the ICRC of one packet over IPv6; False for one over IPv4."""
        flat, start = self._flat_headers, row * HEADER_ROOM
        if flat[start + _SOURCE_AT : start + _SOURCE_AT + 8] == _MAPPED:
            return False
        rest, end = start + _ICRC_HEAD, start + int(self.header_length[row])
        head = (int.from_bytes(flat[start:rest], "little") | _ICRC_MASK_NUMBER).to_bytes(_ICRC_HEAD, "little")
        value = crc32(self.payloads[row], crc32(flat[rest:end], crc32(head, ICRC_SEED)))
        pad = int(self.trailer_length[row]) - ICRC_LENGTH
        if pad:
            value = crc32(_ZEROS[:pad], value)
        _ICRC.pack_into(self._flat_trailers, row * 8 + 4, value)
        return True

    def packet(self, row: int) -> bytes:
        """One sealed packet, from the (inner) IP header to the ICRC."""
        base = row * HEADER_ROOM
        header = bytes(self._flat_headers[base : base + int(self.header_length[row])])
        if mapped_rows(self.headers[row : row + 1])[0]:
            ipv4 = headers_to_send(self.headers[row : row + 1])[0]
            header = with_checksum(ipv4, int(self.traffic_class[row])) + header[UDP_AT:]
        trailer = self.trailers[row, 8 - int(self.trailer_length[row]) :]
        return header + bytes(self.payloads[row]) + trailer.tobytes()


def _ipv4_headers(heads: U8) -> U8:
    """The IPv4 headers of the rows that go over IPv4, zeros for the others."""
    return headers_to_send(heads) * mapped_rows(heads)[:, None]


def _put_ipv4(heads: U8, ipv4: U8) -> I64:
    """Put masked IPv4 headers, where there are any, in front of UDP. Returns where in its row each packet's IP header
    begins."""
    present = ipv4[:, 0] != 0
    rows = np.flatnonzero(present)
    heads[rows, IPV4_AT:UDP_AT] = ipv4[rows] | IPV4_ICRC_MASK
    return np.where(present, np.int64(IPV4_AT), np.int64(0))


_ICRC_BYTES = np.arange(ICRC_LENGTH)
_NOTHING = memoryview(b"")
_ZEROS = bytes(4)
