# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What is known of each EV of one QP, and which EVs lie on one plane: columns of numbers, for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrc.endpoint.parts.numbers import Table, column
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.states import CARRIES_DATA, EvState
from mrc.wire.compiled import const_u8s, i64s, may_raise, python, u8s

_DENIED = int(EvState.DENIED)
_CARRIES_DATA: const_u8s = memoryview(CARRIES_DATA)
_NEVER = _NONE = -1
_COLUMNS = 12
INDEX = 1  # in a row of `EvTable.by_ev`


class EvTable:
    """Columns by *index*, for good, and by *plane*.

    A plane is the EVs of one local port; planes are numbered from 0 by rising port. An EV that the profile no longer
    has is of plane -1. `members` are the indexes of the others, plane by plane: those of plane p from `first[p]` to
    `first[p + 1]`. A plane is `closed` when its port is down at either end, `shut_here` when it is at ours.
    `by_ev` has the INDEX of each EV.
    """

    def __init__(self) -> None:
        self.count = 0
        self.state: u8s = memoryview(bytearray())
        self._columns: i64s = column(0)
        self._divide(0)
        self.planes = 0
        self._arrange(0, 0)
        self.by_ev = Table(2)

    def _divide(self, count: int) -> may_raise[None]:
        """The columns by index are parts of one: each memoryview takes half a kilobyte."""
        columns: i64s = self._columns
        self.ev, self.port = columns[:count], columns[count : 2 * count]
        self.number, self.packets = columns[2 * count : 3 * count], columns[3 * count : 4 * count]
        self.lost, self.marked = columns[4 * count : 5 * count], columns[5 * count : 6 * count]
        self.first_sent_at, self.last_sent_at = columns[6 * count : 7 * count], columns[7 * count : 8 * count]
        # The PSN whose loss condemned an EV, and when the last packet was sent on it that went down with it; or -1.
        self.condemned_by, self.condemned_through = columns[8 * count : 9 * count], columns[9 * count : 10 * count]
        # When the least time in SKIP ends, or -1 where the rotation has not passed the EV since it began.
        self.skip_until, self.plane_of = columns[10 * count : 11 * count], columns[11 * count :]

    def _arrange(self, planes: int, members: int) -> may_raise[None]:
        """Make the columns by plane, and that of their members."""
        columns: i64s = column(3 * planes + 1 + members)
        flags: u8s = memoryview(bytearray(2 * planes))
        # By plane the EVs that may carry data.
        self.port_of_plane, self.usable = columns[:planes], columns[planes : 2 * planes]
        self.first, self.members = columns[2 * planes : 3 * planes + 1], columns[3 * planes + 1 :]
        self.closed, self.shut_here = flags[:planes], flags[planes:]

    def add(self, paths: Sequence[Path], numbers: Iterable[int]) -> may_raise[None]:
        """Give these EVs, none of which is here yet, the next indexes; `numbers` are what the peer node calls them.

        They are DENIED and of no plane as yet.
        """
        count: int
        columns: i64s
        number: int
        index: int
        old: i64s = self._columns
        before: int = self.count
        self.count = count = before + len(paths)
        self._columns = columns = column(_COLUMNS * count)
        for number in range(_COLUMNS):
            for index in range(before):
                columns[number * count + index] = old[number * before + index]
        self._divide(count)
        self.state = memoryview(bytearray(self.state) + bytes((_DENIED,)) * len(paths))
        for index, (path, called) in enumerate(zip(paths, numbers, strict=True), before):
            self.ev[index], self.port[index], self.number[index] = path.ev, path.port, called
            self.first_sent_at[index] = self.last_sent_at[index] = _NEVER
            self.condemned_by[index] = self.condemned_through[index] = self.skip_until[index] = _NEVER
            self.plane_of[index] = _NONE
            row: int = self.by_ev.put(path.ev)
            self.by_ev.cells[row + INDEX] = index

    def arrange(self, current: Sequence[int]) -> python[None]:
        """The profile has these EVs, by index, and no others. No plane is closed."""
        by_port: dict[int, list[int]] = {}
        for index in sorted(current):
            by_port.setdefault(self.port[index], []).append(index)
        self.planes = len(by_port)
        self._arrange(self.planes, len(current))
        for index in range(self.count):
            self.plane_of[index] = _NONE
        place = 0
        for plane, port in enumerate(sorted(by_port)):
            self.port_of_plane[plane] = port
            for index in by_port[port]:
                self.members[place] = index
                self.plane_of[index] = plane
                self.usable[plane] += _CARRIES_DATA[self.state[index]]
                place += 1
            self.first[plane + 1] = place

    def current(self) -> python[list[int]]:
        """Indexes of the EVs the profile has, in rising order."""
        return [index for index in range(self.count) if self.plane_of[index] != _NONE]

    def ports(self) -> python[list[int]]:
        """The local ports of the profile's EVs."""
        return [self.port_of_plane[plane] for plane in range(self.planes)]

    def plane_with(self, port: int) -> python[int]:
        """The plane of a local port, or -1."""
        for plane in range(self.planes):
            if self.port_of_plane[plane] == port:
                return plane
        return _NONE

    def members_of(self, plane: int) -> python[list[int]]:
        """The indexes of a plane's EVs."""
        return [self.members[place] for place in range(self.first[plane], self.first[plane + 1])]

    def all_denied(self) -> bool:
        """Whether every EV of the profile is DENIED."""
        allowed = 0
        for place in range(self.first[self.planes]):
            allowed += self.state[self.members[place]] != _DENIED
        return allowed == 0
