# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The QPs of one endpoint by QPN and by slot, as code without the interpreter finds them."""

from __future__ import annotations

from array import array
from typing import Any

from mrc.endpoint.datapath.qp_datapath import QpDatapath
from mrc.wire import octets
from mrc.wire.compiled import may_raise, objects, pointer, python, with_gil

_LEAST_ROOM = 4
_NONE = -1
_NOBODY: Any = None
# Spreads QPNs over the places of the table: Knuth's multiplicative hashing.
_SPREAD, _SPREAD_BITS = 2654435761, 0xFFFFFFFF


class QpTable:
    """Each QP has a slot, 0 .. `room` - 1, for as long as it is in here: `at[slot]` is that QP.

    From `begin` to `end` packets are taken in, timers run or packets are made, and a QP may be removed by the
    application's code. Such a QP stays in its slot until the next `begin`: packets made until `end` are sent before
    that. `holds` says that it is no longer in here. Nobody may ask for a slot that has been free since.
    """

    at: objects[QpDatapath]
    _removed: list[int]
    _free: array[int]
    _some_removed: bool
    room: int
    _mask: int
    _under_way: int
    _held: pointer
    _qpns: pointer
    _places: pointer

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.at = []
        # An array: numbers of their own, freed one by one, would keep memory from the system.
        self._free = array("q")
        self.room = 0
        self._held, self._qpns, self._places = octets.words(0), octets.words(0), octets.words(0)
        # The slots of QPs that are no longer in here and may still be in use.
        self._removed = []
        self._some_removed = False
        self._under_way = 0
        self._find_anew()

    def __dealloc__(self) -> None:
        octets.free_words(self._held)
        octets.free_words(self._qpns)
        octets.free_words(self._places)

    def add(self, qp: QpDatapath) -> may_raise[None]:
        """Give a QP its slot."""
        if not self._free:
            more = max(_LEAST_ROOM, self.room)
            self._free = array("q", range(self.room + more - 1, self.room - 1, -1))
            self.room += more
            self.at += [_NOBODY] * more
            self._held = octets.longer_words(self._held, self.room - more, self.room)
        qp.slot = self._free.pop()
        self.at[qp.slot] = qp
        self._held[qp.slot] = 1
        self._find_anew()

    def remove(self, qp: QpDatapath) -> python[None]:
        """Take a QP out that is in here."""
        self._removed.append(qp.slot)
        self._some_removed = True
        self._held[qp.slot] = 0
        qp.slot = _NONE
        self._find_anew()
        if not self._under_way:
            self._let_go()

    def begin(self) -> None:
        """QPs are in use until `end`. Calls may be nested."""
        if self._some_removed and not self._under_way:
            self._let_go()
        self._under_way += 1

    def end(self) -> None:
        """What the latest `begin` began is over."""
        self._under_way -= 1

    def _let_go(self) -> with_gil[None]:
        """Forget the QPs that were removed."""
        removed, self._removed = self._removed, []
        self._some_removed = False
        for slot in removed:
            self.at[slot] = _NOBODY
            self._free.append(slot)

    def _find_anew(self) -> python[None]:
        """Make the table of QPNs: half of it is empty at least. A place without a QP has slot -1."""
        qps = [qp for slot, qp in enumerate(self.at) if self._held[slot]]
        size = _LEAST_ROOM
        while size < 2 * len(qps):
            size *= 2
        self._mask = size - 1
        octets.free_words(self._qpns)
        octets.free_words(self._places)
        self._qpns, self._places = octets.words(size), octets.words(size)
        for place in range(size):
            self._places[place] = _NONE
        for qp in qps:
            place = self._first_place(qp.qpn)
            while self._places[place] != _NONE:
                place = place + 1 & self._mask
            self._qpns[place], self._places[place] = qp.qpn, qp.slot

    def _first_place(self, qpn: int) -> int:
        return (qpn * _SPREAD & _SPREAD_BITS) >> 8 & self._mask

    def find(self, qpn: int) -> int:
        """The slot of the QP of this number, -1 where there is none."""
        place = self._first_place(qpn)
        while self._places[place] != _NONE:
            if self._qpns[place] == qpn:
                return self._places[place]
            place = place + 1 & self._mask
        return _NONE

    def holds(self, slot: int) -> bool:
        """Whether the QP of this slot is in here."""
        return self._held[slot] != 0
