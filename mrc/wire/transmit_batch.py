"""Many packets to send at once, each a row of bytes (`mrc.wire.rows`): `batch.fields(REQUEST_TS, 0, 3)["psn_word"]`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import IPV4_AT, IPV4_ICRC_MASK, headers_to_send, mapped_rows, with_checksum
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import COMMON, EXTENSION_AT, HEADER_ROOM, I64, PAD_SHIFT, U8, UDP_AT, Fields

_ICRC_HEAD = len(ICRC_MASK)  # the masked part ends with the BTH's reserved byte
_ICRC_MASK_NUMBER = int.from_bytes(ICRC_MASK.tobytes(), "little")
# So few packets cost less one by one than arrays of them do.
_FEW = 12

_WORD, _IP_HEAD, _LENGTH, _ICRC = struct.Struct(">I"), struct.Struct(">IH"), struct.Struct(">H"), struct.Struct("<I")
_SOURCE_AT, _UDP_LENGTH_AT, _FLAGS_AT = 8, 44, 49
_MAPPED = bytes(8)  # how the source address of a packet over IPv4 begins
_DESTINATION = 28  # bytes


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


_NOTHING = memoryview(b"")
_ZEROS = bytes(4)
