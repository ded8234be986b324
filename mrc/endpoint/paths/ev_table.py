"""What is known of each EV of one QP, and which EVs lie on one plane: columns of numbers, for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.states import EvState

_GOOD, _SKIP, _DENIED = int(EvState.GOOD), int(EvState.SKIP), int(EvState.DENIED)
_NEVER = _NONE = -1


class EvTable:
    """Columns by *index*, for good, and by *plane*.

    A plane is the EVs of one local port; planes are numbered from 0 by rising port. An EV that the profile no longer
    has is of plane -1. `members` are the indexes of the others, plane by plane: those of plane p from `first[p]` to
    `first[p + 1]`. A plane is `closed` when its port is down at either end, `shut_here` when it is at ours.
    """

    __slots__ = (
        "_room",
        "_slots",
        "closed",
        "condemned_by",
        "condemned_through",
        "count",
        "ev",
        "first",
        "first_sent_at",
        "last_sent_at",
        "lost",
        "marked",
        "members",
        "number",
        "packets",
        "plane_of",
        "planes",
        "port",
        "port_of_plane",
        "shut_here",
        "state",
        "usable",
    )

    def __init__(self) -> None:
        self.count = 0
        self.state = memoryview(bytearray())
        nothing = column(0)
        self.ev = self.port = self.number = self.plane_of = nothing
        self.packets = self.lost = self.marked = self.first_sent_at = self.last_sent_at = nothing
        # The PSN whose loss condemned an EV, and when the last packet was sent on it that went down with it; or -1.
        self.condemned_by = self.condemned_through = nothing
        self.planes = 0
        self.port_of_plane = self.first = self.members = nothing
        self.closed = self.shut_here = memoryview(bytearray())
        # By plane the EVs in GOOD or SKIP.
        self.usable = nothing
        self._slots = nothing
        self._room = 0

    def add(self, paths: Sequence[Path], numbers: Iterable[int]) -> None:
        """Give these EVs, none of which is here yet, the next indexes; `numbers` are what the peer node calls them.

        They are DENIED and of no plane as yet.
        """
        more = len(paths)
        self.count += more
        self.ev = _joined(self.ev, [path.ev for path in paths])
        self.port = _joined(self.port, [path.port for path in paths])
        self.number = _joined(self.number, list(numbers))
        self.plane_of = _joined(self.plane_of, [_NONE] * more)
        self.state = memoryview(bytearray(self.state) + bytes([_DENIED] * more))
        self.packets = _joined(self.packets, [0] * more)
        self.lost = _joined(self.lost, [0] * more)
        self.marked = _joined(self.marked, [0] * more)
        self.first_sent_at = _joined(self.first_sent_at, [_NEVER] * more)
        self.last_sent_at = _joined(self.last_sent_at, [_NEVER] * more)
        self.condemned_by = _joined(self.condemned_by, [_NEVER] * more)
        self.condemned_through = _joined(self.condemned_through, [_NEVER] * more)
        self._hash()

    def arrange(self, current: Sequence[int]) -> None:
        """The profile has these EVs, by index, and no others. No plane is closed."""
        ports = sorted({self.port[index] for index in current})
        self.planes = len(ports)
        self.port_of_plane = _joined(column(0), ports)
        by_plane = [[index for index in sorted(current) if self.port[index] == port] for port in ports]
        self.members = _joined(column(0), [index for members in by_plane for index in members])
        self.first = column(len(ports) + 1)
        self.plane_of = column(self.count, _NONE)
        self.usable = column(len(ports))
        self.closed, self.shut_here = memoryview(bytearray(len(ports))), memoryview(bytearray(len(ports)))
        for plane, members in enumerate(by_plane):
            self.first[plane + 1] = self.first[plane] + len(members)
            for index in members:
                self.plane_of[index] = plane
                self.usable[plane] += self.state[index] <= _SKIP

    def current(self) -> list[int]:
        """Indexes of the EVs the profile has, in rising order."""
        return [index for index in range(self.count) if self.plane_of[index] != _NONE]

    def ports(self) -> list[int]:
        """The local ports of the profile's EVs."""
        return [self.port_of_plane[plane] for plane in range(self.planes)]

    def plane_with(self, port: int) -> int:
        """The plane of a local port, or -1."""
        for plane in range(self.planes):
            if self.port_of_plane[plane] == port:
                return plane
        return _NONE

    def members_of(self, plane: int) -> list[int]:
        """The indexes of a plane's EVs."""
        return [self.members[place] for place in range(self.first[plane], self.first[plane + 1])]

    def all_denied(self) -> bool:
        """Whether every EV of the profile is DENIED."""
        allowed = 0
        for place in range(self.first[self.planes]):
            allowed += self.state[self.members[place]] != _DENIED
        return allowed == 0

    # ------------------------------------------------------------------ EVs to indexes

    def _hash(self) -> None:
        """Have a place for each EV, and as many and more that are empty: then a search ends soon."""
        self._room = 4
        while self._room < 4 * self.count:
            self._room *= 2
        self._slots = column(self._room, _NONE)
        for index in range(self.count):
            slot = self._slot(self.ev[index])
            while self._slots[slot] != _NONE:
                slot = slot + 1 & self._room - 1
            self._slots[slot] = index

    def _slot(self, ev: int) -> int:
        """Where the search for an EV begins."""
        return (ev ^ ev >> 7 ^ ev >> 16) & self._room - 1

    def index_of(self, ev: int) -> int:
        """The index of an EV, or -1."""
        slot = self._slot(ev)
        while self._slots[slot] != _NONE:
            if self.ev[self._slots[slot]] == ev:
                return self._slots[slot]
            slot = slot + 1 & self._room - 1
        return _NONE


def _joined(numbers: memoryview, more: Sequence[int]) -> memoryview:
    """A column with further numbers."""
    known = len(numbers)
    made = column(known + len(more))
    for place in range(known):
        made[place] = numbers[place]
    for place, value in enumerate(more, known):
        made[place] = value
    return made
