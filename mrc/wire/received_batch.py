# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Many packets that have arrived, each a row of bytes (`mrc.wire.rows`). They are looked at one by one.

`batch.flat` with `batch.row(i) + BTH_AT` is a byte of one packet; `batch.fields(SACK)["psn_word"]` is a field of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mrc.wire import octets
from mrc.wire.columns import array_of, rows_of
from mrc.wire.compiled import const_i64s, const_u8s, python
from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import IPV4_HEADER, IPV4_ICRC_MASK, NO_OPTIONS
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import HEADER_ROOM, UDP_AT

if TYPE_CHECKING:
    import numpy as np

    from mrc.wire.fields import I64, U8, Fields

_SEED, _ICRC_BYTES, _IPV4_BYTES = ICRC_SEED, ICRC_LENGTH, IPV4_HEADER
# The part of a packet that is masked ends with the BTH's reserved byte; over IPv4 it begins with the IPv4 header.
_HEAD = len(ICRC_MASK)
_MASK: const_u8s = memoryview(ICRC_MASK)
_MASK_FROM_UDP: const_u8s = _MASK[UDP_AT:]
_MASK_IPV4: const_u8s = memoryview(IPV4_ICRC_MASK)
_FROM_UDP = UDP_AT


def _bytes(buffer: Any) -> python[memoryview]:
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


class ReceivedBatch:
    """`count` received packets in rows of a buffer the caller owns until the endpoint returns.

    `flat` is rows of `room` bytes, one behind the other; row `i` holds `lengths[i]` bytes from the IPv6 header to the
    ICRC. `ports[i]` is the local port number it came in on, `classes[i]` the outer header's traffic class, or the inner
    one's where there is no outer header. `ipv4`, where any came over IPv4, holds the 20-byte IPv4 header each row came
    with, zeros for the others. `data`, `length`, `port` and `traffic_class` are the same as numpy's arrays.
    A receiver makes one batch and sets its `count` each time.

    With `headers_only` packets are simulated: of each a row holds the headers alone, whatever its length, and an ICRC
    is always right.
    """

    _all_lengths: memoryview
    _all_ports: memoryview
    _all_classes: memoryview
    _buffer: memoryview
    _headers: memoryview
    count: int
    room: int
    headers_only: bool
    over_ipv4: bool
    flat: const_u8s
    _ipv4: const_u8s
    lengths: const_i64s
    ports: const_i64s
    classes: const_i64s

    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        data: Any,
        room: int,
        count: int,
        lengths: Any,
        ports: Any,
        classes: Any,
        ipv4: Any = None,
        *,
        headers_only: bool = False,
    ) -> None:
        """Anything contiguous that speaks the buffer protocol; `lengths`, `ports`, `classes` are 64-bit numbers."""
        self.count = count
        self.room = room
        self.headers_only = headers_only
        self.flat = self._buffer = _bytes(data)
        self.lengths = self._all_lengths = memoryview(lengths)
        self.ports = self._all_ports = memoryview(ports)
        self.classes = self._all_classes = memoryview(classes)
        self.over_ipv4 = ipv4 is not None
        self._ipv4 = self._headers = _bytes(b"" if ipv4 is None else ipv4)

    @property
    def data(self) -> U8:
        return rows_of(self._buffer, self.room)

    @property
    def ipv4(self) -> U8 | None:
        return rows_of(self._headers, IPV4_HEADER) if self.over_ipv4 else None

    @property
    def length(self) -> I64:
        return array_of(self._all_lengths)[: self.count]

    @property
    def port(self) -> I64:
        return array_of(self._all_ports)[: self.count]

    @property
    def traffic_class(self) -> I64:
        return array_of(self._all_classes)[: self.count]

    @classmethod
    def from_packets(cls, packets: Sequence[bytes], port: int = 0, traffic_class: Sequence[int] = ()) -> ReceivedBatch:
        """A batch copied from whole packets (IPv6 header, or IPv4 header without options, to ICRC), for tests and
        simulated networks."""
        import numpy as np

        from mrc.wire.header_rows import shape_rows

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
        return cls(data, room, len(packets), lengths, ports, outer, ipv4 if len(over_ipv4) else None)

    def fields(self, layout: np.dtype[np.void]) -> python[Fields]:
        """All rows as one structured array of `layout`; nothing is copied."""
        import numpy as np

        return np.ndarray((self.count,), layout, self.data, 0, (self.room,))

    def view(self, row: int, start: int, stop: int) -> python[memoryview]:
        """Bytes `start` to `stop` of one row."""
        base = row * self.room
        return self._buffer[base + start : base + stop]

    def packet(self, row: int) -> python[bytes]:
        """The packet of one row as it came, from the (inner) IP header to the ICRC."""
        if self.came_over_ipv4(row):
            at = row * IPV4_HEADER
            return bytes(self._headers[at : at + IPV4_HEADER]) + bytes(self.view(row, UDP_AT, self.lengths[row]))
        return bytes(self.view(row, 0, self.lengths[row]))

    def row(self, row: int) -> int:
        """Where in `flat` the packet of this row begins."""
        return row * self.room

    def came_over_ipv4(self, row: int) -> bool:
        return self.over_ipv4 and self._ipv4[row * _IPV4_BYTES] != 0

    def icrc_right(self, row: int) -> bool:
        """Whether the ICRC of a packet that is at least a BTH and an ICRC long is right."""
        if self.headers_only:
            return True
        base = row * self.room
        end = base + self.lengths[row] - _ICRC_BYTES
        if self.over_ipv4 and self.came_over_ipv4(row):
            value = octets.masked_crc(self._ipv4, row * _IPV4_BYTES, _MASK_IPV4, _SEED)
            value = octets.masked_crc(self.flat, base + _FROM_UDP, _MASK_FROM_UDP, value)
        else:
            value = octets.masked_crc(self.flat, base, _MASK, _SEED)
        return octets.crc(self.flat, base + _HEAD, end - base - _HEAD, value) == octets.le32(self.flat, end)
