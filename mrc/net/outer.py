# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The outer IPv6 headers of packets in SRv6 mode, with a segment routing header behind them where there is one.

They are written here, not by the kernel, which takes a tenth longer to send a packet that it has to put together from
parts and whose traffic class comes beside it. It still looks up the way to the destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mrc.net.ports import Port
from mrc.wire import octets
from mrc.wire.columns import rows_of
from mrc.wire.compiled import const_i64s, const_u8s, u8s
from mrc.wire.headers import HEADERS
from mrc.wire.rows import offsets_in
from mrc.wire.srh import IPV6_IN_IPV6, ROUTING, SRH_HEAD, SRH_LENGTH
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import BLOCK_BITS

if TYPE_CHECKING:
    from mrc.wire.fields import U8

IPV6_HEADER: int = HEADERS["ipv6"].length
_HOP_LIMIT = 64
_VERSION = 6 << 28
_TRAFFIC_CLASS_SHIFT = 20
_PLEN_AT, _NH_AT, _HLIM_AT, _SOURCE_AT, _DESTINATION_AT = offsets_in("ipv6", "plen nh hlim src dst")
_ADDRESS = 16
_SOCKADDR, _ADDRESS_AT = 28, 8  # of a sockaddr_in6
_BLOCK, _USID = BLOCK_BITS // 8, 2
_SEGMENT_AT = IPV6_HEADER + SRH_LENGTH - _ADDRESS


class OuterHeaders:
    """One for each row of a batch: `flat` has rows of `length` bytes, 40, or 64 with a routing header.

    `flat_destinations`, rows of sockaddr_in6, are where the kernel is to send to. With `srh` that is only the first of
    two containers; the routing header has the other. `rows` and `destinations` are the same as numpy's arrays.
    """

    flat: memoryview
    flat_destinations: memoryview
    _flat: u8s
    _to: u8s

    def __init__(self, ports: Sequence[Port], batch: TransmitBatch, *, srh: bool) -> None:
        """`ports` are all that the batch can name, `batch` is the one that is sent, filled anew each time."""
        self._behind: int = SRH_LENGTH if srh else 0
        self.length: int = IPV6_HEADER + self._behind
        row = bytearray(self.length)
        row[_NH_AT], row[_HLIM_AT] = ROUTING if srh else IPV6_IN_IPV6, _HOP_LIMIT
        if srh:
            row[IPV6_HEADER : IPV6_HEADER + len(SRH_HEAD)] = SRH_HEAD
        self.flat = self._flat = memoryview(row * batch.capacity)
        sources = {port.port: port.local_address for port in ports}
        self._sources: const_u8s = memoryview(
            b"".join(sources.get(number, bytes(_ADDRESS)) for number in range(max(sources) + 1))
        )
        self._header_lengths: const_i64s = batch.header_lengths
        self._payload_lengths: const_i64s = batch.payload_lengths
        self._trailer_lengths: const_i64s = batch.trailer_lengths
        self._traffic_classes: const_i64s = batch.classes
        self._ports: const_i64s = batch.ports
        # Where the packets are to go, and the addresses given to the kernel.
        self._destinations: const_u8s = batch.flat_destinations
        self.flat_destinations = self._to = (
            memoryview(bytearray(batch.capacity * _SOCKADDR)) if srh else memoryview(batch.flat_destinations)
        )

    @property
    def rows(self) -> U8:
        return rows_of(self.flat, self.length)

    @property
    def destinations(self) -> U8:
        return rows_of(self.flat_destinations, _SOCKADDR)

    def write(self, row: int) -> None:
        """Write the outer header of the packet in this row of the batch."""
        at = row * self.length
        length = self._header_lengths[row] + self._payload_lengths[row] + self._trailer_lengths[row] + self._behind
        octets.put32(self._flat, at, _VERSION | self._traffic_classes[row] << _TRAFFIC_CLASS_SHIFT)
        octets.put16(self._flat, at + _PLEN_AT, length)
        octets.copy(self._flat, at + _SOURCE_AT, self._sources, self._ports[row] * _ADDRESS, _ADDRESS)
        if self._behind:
            self._split(row)
        octets.copy(self._flat, at + _DESTINATION_AT, self._to, row * _SOCKADDR + _ADDRESS_AT, _ADDRESS)

    def _split(self, row: int) -> None:
        """Make two containers of one: its last uSID moves into the routing header (`mrc.wire.srh.two_containers`)."""
        start = row * _SOCKADDR
        octets.copy(self._to, start, self._destinations, start, _SOCKADDR)
        address, segment = start + _ADDRESS_AT, row * self.length + _SEGMENT_AT
        last = address + _ADDRESS - _USID
        while last > address + _BLOCK and octets.u16(self._to, last) == 0:
            last -= _USID
        octets.copy(self._flat, segment, self._to, address, _BLOCK)
        octets.copy(self._flat, segment + _BLOCK, self._to, last, _USID)
        octets.put16(self._to, last, 0)
