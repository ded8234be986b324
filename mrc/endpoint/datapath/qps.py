# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The QPs of one endpoint: in their slots, by number, as code without the interpreter finds them, and in turn.

Whose turn it is to send: fair turns among the QPs that have something to send, no cost for those that have not. The
scheduler names QPs by their slots, controllers by numbers given here.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import Any

from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.datapath.qp_datapath import QpDatapath
from mrc.endpoint.parts.numbers import Table, column
from mrc.wire import octets
from mrc.wire.compiled import i64s, may_raise, objects, python, with_gil

_LEAST_ROOM = 4
_NONE = -1
_NOBODY: Any = None
_SLOT = 1  # in a row of a QPN
_COLUMNS = 6


class QpTable:
    """Each QP has a slot, 0 .. `room` - 1, for as long as it is in here: `at[slot]` is that QP.

    From `begin` to `end` packets are taken in, timers run or packets are made, and a QP may be removed by the
    application's code. Such a QP stays in its slot until the next `begin`: packets made until `end` are sent before
    that. `holds` says that it is no longer in here. Nobody may ask for a slot that has been free since.
    """

    def __init__(self) -> None:
        self.at: objects[QpDatapath] = []
        # An array: numbers of their own, freed one by one, would keep memory from the system.
        self._free: array[int] = array("q")
        self.room = 0
        self._held = octets.words(0)
        self._by_qpn = Table(2)
        # The slots of QPs that are no longer in here and may still be in use.
        self._removed: list[int] = []
        self._some_removed = False
        self._under_way = 0

    def __dealloc__(self) -> None:
        octets.free_words(self._held)

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
        row: int = self._by_qpn.put(qp.qpn)
        self._by_qpn.cells[row + _SLOT] = qp.slot

    def remove(self, qp: QpDatapath) -> python[None]:
        """Take a QP out that is in here."""
        self._removed.append(qp.slot)
        self._some_removed = True
        self._held[qp.slot] = 0
        qp.slot = _NONE
        self._by_qpn.remove(self._by_qpn.find(qp.qpn))
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

    def find(self, qpn: int) -> int:
        """The slot of the QP of this number, -1 where there is none."""
        row = self._by_qpn.find(qpn)
        return _NONE if row < 0 else self._by_qpn.cells[row + _SLOT]

    def holds(self, slot: int) -> bool:
        """Whether the QP of this slot is in here."""
        return self._held[slot] != 0


class SendState(IntEnum):
    """Where a QP stands with its sending (behaviour.md, Requestor)."""

    IDLE = 0  # nothing to send, nothing outstanding
    ACTIVE = 1  # all sent, not all of it acknowledged
    READY = 2  # something may leave now
    PENDING = 3  # something to send, but a window is shut or no path usable


# (has something to send, may send it now, has packets outstanding)
SEND_STATES: dict[tuple[bool, bool, bool], SendState] = {
    (False, False, False): SendState.IDLE,
    (False, False, True): SendState.ACTIVE,
    (True, False, False): SendState.PENDING,
    (True, False, True): SendState.PENDING,
    (True, True, False): SendState.READY,
    (True, True, True): SendState.READY,
}


def send_state(qp: QpDatapath) -> python[SendState]:
    return SEND_STATES[qp.has_work(), qp.pending(), qp.outstanding() > 0]


class Scheduler:
    """READY QPs take turns in order of arrival; PENDING ones wait for the controller they share to open its window.

    A QP is queued at most once. One that waits keeps its place until it has sent data, whatever else it sends. One
    that is neither ready nor waiting costs nothing until an event of its own wakes it.
    """

    def __init__(self, qps: QpTable) -> None:
        self._qps = qps
        self._room = self._position = self.ready = 0
        self._columns: i64s = column(0)
        self._divide(0)
        # By number of a controller: the slots that have waited for it longest and least, or -1.
        self._first = octets.words(0)
        self._last = octets.words(0)
        self._controllers: list[CongestionController | None] = []
        self._governed: list[int] = []  # how many QPs each of them has

    def __dealloc__(self) -> None:
        octets.free_words(self._first)
        octets.free_words(self._last)

    # ------------------------------------------------------------------ who takes part

    def join(self, slot: int) -> python[None]:
        """There is a QP in this slot."""
        if slot >= self._room:
            self._make_room()
        self._queued[slot] = self._waiting[slot] = 0
        self._governor[slot] = _NONE

    def _make_room(self) -> may_raise[None]:
        columns: i64s
        number: int
        slot: int
        ready = [self._ready[(self._position + place) % self._room] for place in range(self.ready)]
        old: i64s = self._columns
        before: int = self._room
        room: int = self._qps.room
        self._columns = columns = column(_COLUMNS * room)
        for number in range(_COLUMNS):
            for slot in range(before):
                columns[number * room + slot] = old[number * before + slot]
        self._divide(room)
        for place, waiting in enumerate(ready):
            self._ready[place] = waiting
        self._position = 0

    def _divide(self, room: int) -> may_raise[None]:
        """The columns are parts of one: each memoryview takes half a kilobyte."""
        columns: i64s = self._columns
        self._room = room
        # A ring of the slots that are ready: `ready` of them from `_position` on.
        self._ready = columns[:room]
        # By slot: whether it is in that ring, the number of its controller or -1, whether it waits for that, and its
        # neighbours among those that wait.
        self._queued, self._governor = columns[room : 2 * room], columns[2 * room : 3 * room]
        self._waiting = columns[3 * room : 4 * room]
        self._before, self._after = columns[4 * room : 5 * room], columns[5 * room :]

    def govern(self, slot: int, controller: CongestionController) -> python[None]:
        """This QP sends under `controller` from now on."""
        self._release(slot)
        same = (at for at, each in enumerate(self._controllers) if each is controller)
        unused = (at for at, each in enumerate(self._controllers) if each is None)
        number = next(same, next(unused, len(self._controllers)))
        if number == len(self._controllers):
            self._controllers.append(None)
            self._governed.append(0)
            self._first = octets.longer_words(self._first, number, number + 1)
            self._last = octets.longer_words(self._last, number, number + 1)
            self._first[number] = self._last[number] = _NONE
        self._controllers[number] = controller
        self._governed[number] += 1
        self._governor[slot] = number

    def _release(self, slot: int) -> python[None]:
        number = self._governor[slot]
        if number != _NONE:
            self._governor[slot] = _NONE
            self._governed[number] -= 1
            if not self._governed[number]:
                self._controllers[number] = None

    def leave(self, slot: int) -> python[None]:
        """The QP in this slot is gone."""
        self.rest(slot)
        self._release(slot)

    def rest(self, slot: int) -> python[None]:
        """This QP has no turn until it is woken."""
        self._stop_waiting(slot)
        kept = [self._ready[(self._position + place) % self._room] for place in range(self.ready)]
        self._position = self.ready = 0
        for each in kept:
            if each != slot:
                self._ready[self.ready] = each
                self.ready += 1
        self._queued[slot] = 0

    # ------------------------------------------------------------------ turns

    def wake(self, slot: int) -> None:
        """Something happened to this QP: it has its turn when those before it have had theirs."""
        if not self._queued[slot]:
            self._queued[slot] = 1
            self._ready[(self._position + self.ready) % self._room] = slot
            self.ready += 1

    def on_event(self, slot: int) -> None:
        """Packets arrived for this QP or a timer ran: who can go on now has a turn, first who waited longest."""
        self.window_moved(slot)
        if not self._qps.at[slot].pending():
            self._wait_if_shut(slot)
        elif self._qps.at[slot].has_control() or not self._waiting[slot]:
            self.wake(slot)

    def next(self) -> int:
        """Take the QP whose turn it is: some are `ready`. Give it back with `after_turn`."""
        slot = self._ready[self._position]
        self._position = (self._position + 1) % self._room
        self.ready -= 1
        self._queued[slot] = 0
        return slot

    def after_turn(self, slot: int, sent: int, sent_data: bool) -> None:
        """This QP had its turn and sent so many packets, data among them or not."""
        if sent_data:
            # Its next turn at the shared window comes after everybody else's.
            self._stop_waiting(slot)
        self.window_moved(slot)
        if sent and self._qps.at[slot].pending():
            self.wake(slot)
        else:
            self._wait_if_shut(slot)

    def window_moved(self, slot: int) -> None:
        """Bytes of this QP left the network or its window changed. If it is open, the QP that waited longest is ready.

        After that QP's turn comes the next, as long as the window stays open.
        """
        number = self._governor[slot]
        if number == _NONE or self._first[number] == _NONE:
            return
        if self._qps.at[slot].window_is_open():
            first = self._first[number]
            self._stop_waiting(first)
            self.wake(first)

    # ------------------------------------------------------------------ waiting for a window

    def _wait_if_shut(self, slot: int) -> None:
        """A QP with something to send whose window is shut waits; one that waits already keeps its place."""
        number = self._governor[slot]
        if number == _NONE or self._waiting[slot] or self._qps.at[slot].window_is_open():
            return
        if self._qps.at[slot].has_work():
            self._waiting[slot] = 1
            self._before[slot], self._after[slot] = self._last[number], _NONE
            if self._last[number] == _NONE:
                self._first[number] = slot
            else:
                self._after[self._last[number]] = slot
            self._last[number] = slot

    def _stop_waiting(self, slot: int) -> None:
        if not self._waiting[slot]:
            return
        self._waiting[slot] = 0
        number, before, after = self._governor[slot], self._before[slot], self._after[slot]
        if before == _NONE:
            self._first[number] = after
        else:
            self._after[before] = after
        if after == _NONE:
            self._last[number] = before
        else:
            self._before[after] = before
