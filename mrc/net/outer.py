"""The outer IPv6 headers of packets in SRv6 mode, with a segment routing header behind them where there is one.

They are written here, not by the kernel, which takes a tenth longer to send a packet that it has to put together from
parts and whose traffic class comes beside it. It still looks up the way to the destination.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mrc.net.ports import Port
from mrc.wire.srh import IPV6_IN_IPV6, ROUTING, SRH_LENGTH, new_headers, split_rows
from mrc.wire.transmit_batch import TransmitBatch

U8 = npt.NDArray[np.uint8]

IPV6_HEADER = 40
_HOP_LIMIT = 64
_VERSION = 6 << 28
_TRAFFIC_CLASS_SHIFT = 20
_HEAD = struct.Struct(">IH")
_FIELDS = np.dtype({"names": ["word", "plen", "nh", "hlim"], "formats": [">u4", ">u2", "u1", "u1"]})
_SOURCE, _DESTINATION = slice(8, 24), slice(24, 40)
_SOCKADDR, _ADDRESS = 28, slice(8, 24)  # of a sockaddr_in6


class OuterHeaders:
    """One for each row of a batch: `rows`, uint8 [capacity, 40], or [capacity, 64] with a routing header.

    `destinations`, rows of sockaddr_in6, are where the kernel is to send to. With `srh` that is only the first of two
    containers; the routing header has the other.
    """

    __slots__ = (
        "_batch",
        "_behind",
        "_fields",
        "_flat",
        "_flat_destinations",
        "_routing",
        "_sources",
        "_sources_by_port",
        "destinations",
        "rows",
    )

    def __init__(self, ports: Sequence[Port], batch: TransmitBatch, *, srh: bool) -> None:
        """`ports` are all that the batch can name, `batch` is the one that is sent, filled anew each time."""
        self._batch = batch
        self._behind = SRH_LENGTH if srh else 0
        length = IPV6_HEADER + self._behind
        self.rows: U8 = np.zeros((batch.capacity, length), np.uint8)
        self._flat = self.rows.reshape(-1).data
        self._fields = np.ndarray((batch.capacity,), _FIELDS, self.rows, 0, (length,))
        self._fields["nh"] = ROUTING if srh else IPV6_IN_IPV6
        self._fields["hlim"] = _HOP_LIMIT
        self._sources = {port.port: port.local_address for port in ports}
        self._sources_by_port: U8 = np.zeros((max(self._sources) + 1, 16), np.uint8)
        for number, address in self._sources.items():
            self._sources_by_port[number] = np.frombuffer(address, np.uint8)
        self.destinations = batch.destination
        self._flat_destinations = batch.destination.reshape(-1).data
        self._routing: U8 | None = None
        if srh:
            self.destinations = np.zeros_like(batch.destination)
            self._routing = self.rows[:, IPV6_HEADER:]
            self._routing[:] = new_headers(batch.capacity)

    def fill(self, count: int) -> None:
        """Write the first `count`, for what is in the batch."""
        batch, rows, fields = self._batch, self.rows[:count], self._fields[:count]
        if self._routing is not None:
            self.destinations[:count] = batch.destination[:count]
            split_rows(self.destinations[:count, _ADDRESS], self._routing[:count])
        fields["word"] = _VERSION | batch.traffic_class[:count] << _TRAFFIC_CLASS_SHIFT
        fields["plen"] = (
            batch.header_length[:count] + batch.payload_length[:count] + batch.trailer_length[:count] + self._behind
        )
        rows[:, _SOURCE] = self._sources_by_port[batch.port[:count]]
        rows[:, _DESTINATION] = self.destinations[:count, _ADDRESS]

    def fill_one(self, row: int) -> None:
        """`fill` for one row, in plain numbers."""
        if self._routing is not None:
            self.fill(row + 1)
            return
        batch, flat, at = self._batch, self._flat, row * IPV6_HEADER
        length = int(batch.header_length[row]) + int(batch.payload_length[row]) + int(batch.trailer_length[row])
        _HEAD.pack_into(flat, at, _VERSION | int(batch.traffic_class[row]) << _TRAFFIC_CLASS_SHIFT, length)
        flat[at + 8 : at + 24] = self._sources[int(batch.port[row])]
        address = row * _SOCKADDR + _ADDRESS.start
        flat[at + 24 : at + 40] = self._flat_destinations[address : address + 16]
