# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Many packets that have arrived, each a row of bytes (`mrc.wire.rows`), and the one that is looked at.

`batch.flat` with `batch.row(i) + BTH_AT` is a byte of one packet; `batch.fields(SACK)["psn_word"]` is a field of all.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mrc.wire import octets
from mrc.wire.columns import array_of, rows_of
from mrc.wire.compiled import const_i64s, const_u8s, python, unsigned
from mrc.wire.icrc import ICRC_MASK, ICRC_SEED
from mrc.wire.ipv4 import IPV4_HEADER, IPV4_ICRC_MASK, NO_OPTIONS
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.rows import BTH_AT, HEADER_ROOM, PSN_BITS_MASK, PSN_FLAGS_AT, UDP_AT, shifts_in

if TYPE_CHECKING:
    import numpy as np

    from mrc.wire.fields import I64, U8, Fields

# The part of a packet that is masked ends with the BTH's reserved byte; over IPv4 it begins with the IPv4 header.
_HEAD = len(ICRC_MASK)
_MASK: const_u8s = memoryview(ICRC_MASK)
_MASK_FROM_UDP: const_u8s = _MASK[UDP_AT:]
_MASK_IPV4: const_u8s = memoryview(IPV4_ICRC_MASK)
# How far the fields are shifted in the first eight bytes of each header.
_VERSION, _CLASS, _LABEL, _PLEN, _NEXT_HEADER, _ = shifts_in("ipv6", "version tc fl plen nh hlim")
_SPORT, _DPORT, _UDP_LENGTH, _ = shifts_in("udp", "sport dport len chksum")
_OPCODE, _FLAGS, _P_KEY, _DQP = shifts_in("bth", "opcode tver pkey dqp")
_WITHOUT_OPTIONS: bytes = bytes((NO_OPTIONS,))
_8_BITS, _16_BITS, _20_BITS, _24_BITS = 0xFF, 0xFFFF, 0xFFFFF, 0xFFFFFF


def _shaped(header: bytes) -> python[bytes]:
    """The first 40 bytes of a row whose packet came with this IPv4 header."""
    import numpy as np

    from mrc.wire.header_rows import shape_rows

    row = np.zeros((1, UDP_AT), np.uint8)
    shape_rows(row, np.frombuffer(header, np.uint8).reshape(1, IPV4_HEADER))
    return row.tobytes()


def _class_of(row: bytes) -> python[int]:
    """The traffic class of the IPv6 header that a row begins with."""
    return int.from_bytes(row[:2].ljust(2, b"\0"), "big") >> 4 & _8_BITS


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
    flat: const_u8s
    _ipv4: const_u8s
    lengths: const_i64s
    ports: const_i64s
    classes: const_i64s

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
        headers: list[bytes] = []
        rows: list[bytes] = []
        over_ipv4 = False
        for packet in packets:
            header = bytes(IPV4_HEADER)
            if packet[:1] == _WITHOUT_OPTIONS and len(packet) >= IPV4_HEADER:
                header, over_ipv4 = packet[:IPV4_HEADER], True
                packet = _shaped(header) + packet[IPV4_HEADER:]
            headers.append(header)
            rows.append(packet)
        room = max(HEADER_ROOM, *map(len, rows)) if rows else HEADER_ROOM
        data = bytearray().join([packet.ljust(room, b"\0") for packet in rows])
        lengths = array("q", map(len, rows))
        outer = array("q", traffic_class) if len(traffic_class) else array("q", map(_class_of, rows))
        ports = array("q", [port] * len(rows))
        ipv4 = bytearray().join(headers) if over_ipv4 else None
        return cls(data, room, len(rows), lengths, ports, outer, ipv4)

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
        return self.over_ipv4 and self._ipv4[row * IPV4_HEADER] != 0

    def icrc_right(self, row: int) -> bool:
        """Whether the ICRC of a packet that is at least a BTH and an ICRC long is right."""
        if self.headers_only:
            return True
        base = row * self.room
        end = base + self.lengths[row] - ICRC_LENGTH
        if self.over_ipv4 and self.came_over_ipv4(row):
            value = octets.masked_crc(self._ipv4, row * IPV4_HEADER, _MASK_IPV4, ICRC_SEED)
            value = octets.masked_crc(self.flat, base + UDP_AT, _MASK_FROM_UDP, value)
        else:
            value = octets.masked_crc(self.flat, base, _MASK, ICRC_SEED)
        return octets.crc(self.flat, base + _HEAD, end - base - _HEAD, value) == octets.le32(self.flat, end)


class ReceivedPacket:
    """The packet that was `read` last: row `row` of a batch.

    It begins at `at` in `batch.flat`, has `length` bytes up to the end of its ICRC and came in on the local port number
    `port`. `outer` is the traffic class of the outer header, `inner` that of its own. The others are fields of
    its headers; `flags` is the BTH's second byte, `psn_word` its last word and `psn` the PSN in that.
    """

    def __init__(self) -> None:
        self.row = self.at = self.length = self.port = self.outer = self.inner = 0
        self.version = self.label = self.plen = self.next_header = 0
        self.sport = self.dport = self.udp_length = 0
        self.opcode = self.flags = self.pkey = self.dqp = self.psn_word = self.psn = 0

    def read(self, batch: ReceivedBatch, row: int) -> None:
        """Look at a packet that is at least as long as these headers."""
        at = row * batch.room
        self.row, self.at, self.length = row, at, batch.lengths[row]
        self.port, self.outer = batch.ports[row], batch.classes[row]
        ip: unsigned = octets.u64(batch.flat, at)
        self.version = ip >> _VERSION
        self.inner = ip >> _CLASS & _8_BITS
        self.label = ip >> _LABEL & _20_BITS
        self.plen = ip >> _PLEN & _16_BITS
        self.next_header = ip >> _NEXT_HEADER & _8_BITS
        udp: unsigned = octets.u64(batch.flat, at + UDP_AT)
        self.sport = udp >> _SPORT
        self.dport = udp >> _DPORT & _16_BITS
        self.udp_length = udp >> _UDP_LENGTH & _16_BITS
        bth: unsigned = octets.u64(batch.flat, at + BTH_AT)
        self.opcode = bth >> _OPCODE
        self.flags = bth >> _FLAGS & _8_BITS
        self.pkey = bth >> _P_KEY & _16_BITS
        self.dqp = bth >> _DQP & _24_BITS
        self.psn_word = octets.u32(batch.flat, at + PSN_FLAGS_AT)
        self.psn = self.psn_word & PSN_BITS_MASK
