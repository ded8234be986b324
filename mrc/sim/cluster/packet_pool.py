# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The packets under way: of each its headers as they were sent, and a row of numbers that the fabric goes by."""

from __future__ import annotations

from mrc.sim.cluster.columns import octets as octet_column
from mrc.sim.cluster.columns import short_numbers
from mrc.wire.compiled import i32s, u8s, with_gil

# A packet's numbers: the one behind it in whatever it is in; bytes of the whole IP packet; the direction it is on;
# plane and uplink; the host it is for; traffic class of the outer header; what else is known of it; how often its
# direction had gone down when it left.
NEXT, SIZE, LINK, WAY, TO, CLASS, MARKS, EPOCH = range(8)
WIDTH = 8
# In MARKS: how many switches it has passed, whether it has priority, whether it was cut short.
HOP, PRIORITY, TRIMMED = 0xFF, 0x100, 0x200
# Of its headers: the longest are those of a SACK. The rows of batches have more, for what lies behind the headers.
ROOM = 96

_NONE = -1


class PacketPool:
    """Places of packets, `room` of them, `in_use` so many.

    Packet p has `ROOM` bytes of `headers` from p * ROOM on, and `WIDTH` numbers of `cells` from p * WIDTH on.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.headers: u8s = octet_column(room * ROOM)
        self.cells: i32s = short_numbers(room * WIDTH)
        self.in_use = 0
        # Those given back, the last one first, and the first that never was in use.
        self._first_free = _NONE
        self._fresh = 0

    def take(self) -> int:
        """A place for one more packet."""
        self.in_use += 1
        packet = self._first_free
        if packet != _NONE:
            self._first_free = self.cells[packet * WIDTH + NEXT]
            return packet
        if self._fresh == self.room:
            self._grow()
        packet = self._fresh
        self._fresh = packet + 1
        return packet

    def give(self, packet: int) -> None:
        """This packet is no more."""
        self.cells[packet * WIDTH + NEXT] = self._first_free
        self._first_free = packet
        self.in_use -= 1

    def _grow(self) -> with_gil[None]:
        room = 2 * self.room
        headers, cells = octet_column(room * ROOM), short_numbers(room * WIDTH)
        headers[: self.room * ROOM] = self.headers
        cells[: self.room * WIDTH] = self.cells
        self.headers, self.cells, self.room = headers, cells, room
