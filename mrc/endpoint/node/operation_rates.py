# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How much of what comes for DQP 2 is looked at: from each address no more of a kind than its rate allows."""

from __future__ import annotations

from array import array

from mrc.endpoint.counters import Counters
from mrc.endpoint.parts.numbers import column, longer
from mrc.endpoint.parts.rate_limit import SECOND, granted
from mrc.wire.compiled import const_i64s, i64s, python

# Of packets with one source address so many at once, and so many a second, by operation of a request: what a peer
# needs many times over. A status that is over the rate is not answered, so that its sender repeats it.
RESPONSE, OTHER = 4, 5
_RATES: dict[int, tuple[int, int]] = {
    0: (64, 100),
    1: (4096, 2000),
    2: (64, 100),
    3: (64, 100),
    RESPONSE: (8192, 5000),
    OTHER: (64, 100),
}
_KINDS = len(_RATES)
_LEAST_ROOM = 4
# By kind: how long one packet pays for, and a burst, ns.
_INTERVAL_NS: const_i64s = memoryview(array("q", [SECOND // per_second for _, per_second in _RATES.values()]))
_BURST_NS: const_i64s = memoryview(
    array("q", [burst * (SECOND // per_second) for burst, per_second in _RATES.values()])
)


class OperationRates:
    """What has come from each address, by the low half of it: each has a slot from the first `join` to the last
    `leave`. A kind of packets is the operation of a request, RESPONSE or OTHER."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._slots: dict[int, int] = {}
        # By slot how many have joined and not left.
        self._users: list[int] = []
        # An array: numbers of their own, freed one by one, would keep memory from the system.
        self._free: array[int] = array("q")
        # By slot and kind until when what has passed is paid for, ns.
        self._paid_until: i64s = column(0)

    def join(self, low: int) -> python[int]:
        """The slot of the addresses with this low half."""
        if low not in self._slots:
            self._slots[low] = self._new_slot()
        slot = self._slots[low]
        self._users[slot] += 1
        return slot

    def _new_slot(self) -> python[int]:
        if not self._free:
            room = len(self._users)
            more = max(_LEAST_ROOM, room)
            self._free = array("q", range(room + more - 1, room - 1, -1))
            self._users += [0] * more
            self._paid_until = longer(self._paid_until, (room + more) * _KINDS)
        slot = self._free.pop()
        for kind in range(_KINDS):
            self._paid_until[slot * _KINDS + kind] = 0
        return slot

    def leave(self, low: int) -> python[None]:
        """One that joined is gone. The slot goes with the last of them."""
        slot = self._slots[low]
        self._users[slot] -= 1
        if not self._users[slot]:
            del self._slots[low]
            self._free.append(slot)

    def is_welcome(self, slot: int, kind: int, now: int) -> bool:
        """Whether a packet of this kind is looked at; it counts as looked at. The others are counted."""
        at = slot * _KINDS + kind
        paid_until = max(self._paid_until[at], now)
        if granted(paid_until, _BURST_NS[kind], _INTERVAL_NS[kind], 1, now) < 1:
            self._counters.over_rate += 1
            return False
        self._paid_until[at] = paid_until + _INTERVAL_NS[kind]
        return True
