# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What the requestor remembers of what it sent.

Two groups of rings. By PSN: the state of each sequence number. By transmission: each time a PSN went out, in
the order of sending (a PSN sent again has a new transmission, and only its latest may be outstanding). PSNs
and transmission numbers are unbounded here; `& mask` finds the slot.
"""

from __future__ import annotations

from enum import IntEnum

from mrc.endpoint.parts.numbers import column
from mrc.wire import octets
from mrc.wire.compiled import i64s, may_raise, pointer, public, python, readonly, u8s
from mrc.wire.psn import PSN_HALF, PSN_MASK


class PsnState(IntEnum):
    """A PSN's place in its life. FREE is also what an acknowledged one left behind the window is."""

    FREE = 0
    OUTSTANDING = 1
    LOST = 2  # waits to be sent again
    ACKED = 3


_OUTSTANDING, _LOST = int(PsnState.OUTSTANDING), int(PsnState.LOST)
_LEAST_RING, _PSN_RINGS = 16, 8


def _ring_size(at_least: int) -> python[int]:
    return max(_LEAST_RING, 1 << (at_least - 1).bit_length())


def unbounded(psn: int, near: int) -> int:
    """The number of the 24 bits by which a peer names a PSN: of those that end so the nearest. As mrc.wire.psn.unwrap,
    which is Python's: tests hold both to the same."""
    return near + ((psn - near + PSN_HALF & PSN_MASK) - PSN_HALF)


class SentPackets:
    """PSN and transmission rings of one QP. `window` is the most PSNs ever in use at once.

    `first_psn` is the first that is ever sent, `una` the oldest not covered by cack_psn (cack_psn + 1), `una_since` the
    first transmission made since it has been that, `next_psn` the next new one, `right_edge` the first beyond what the
    peer ever granted; `head` the oldest transmission not settled by loss detection, `next_transmission` the next to be
    made.
    """

    def __init__(self, window: int, first_psn: int) -> None:
        self.first_psn: readonly[int] = first_psn
        self.una: public[int] = first_psn
        self.next_psn: public[int] = first_psn
        self.right_edge: public[int] = first_psn
        self.head: public[int] = 0
        self.next_transmission: public[int] = 0
        self.una_since: public[int] = 0
        self.outstanding: public[int] = 0
        self._make_log(_LEAST_RING)
        self.make_rings(window)

    def make_rings(self, window: int) -> python[None]:
        """Rings for another window, while nothing has been sent: a QP that never sends is to cost no memory."""
        self._make_psn_rings(_ring_size(window))
        # Each PSN may go out several times before the oldest transmission is settled. The log grows when they do.
        self._most_log = _ring_size(4 * (self.mask + 2))
        self._free_log()
        self._make_log(self.mask + 1)

    def _make_psn_rings(self, size: int) -> may_raise[None]:
        slot: int
        self.mask = size - 1
        # They are parts of one column: each memoryview takes half a kilobyte.
        rings: i64s = column(_PSN_RINGS * size)
        flags: u8s = memoryview(bytearray(2 * size))
        self.psn, self.times_sent, self.transmission = rings[:size], rings[size : 2 * size], rings[2 * size : 3 * size]
        # The retries it drew, how often a NACK made it wait, the EV of the transmission last taken for lost,
        # and the transmission last found lost by a hole or timer (-1: none, or it proved spurious).
        self.retries, self.waits = rings[3 * size : 4 * size], rings[4 * size : 5 * size]
        self.lost_ev, self.blamed = rings[5 * size : 6 * size], rings[6 * size : 7 * size]
        # When one that a NACK made wait is due, ns (-1: none waits for its time).
        self.due_at = rings[7 * size : 8 * size]
        # Whether a timer found that loss.
        self.state, self.by_timer = flags[:size], flags[size:]
        for slot in range(size):
            self.psn[slot] = self.blamed[slot] = self.due_at[slot] = -1

    def _make_log(self, log: int) -> None:
        self.log_mask = log - 1
        self.log_psn, self.log_sent_at = octets.words(log), octets.words(log)
        self.log_size, self.log_ev = octets.words(log), octets.words(log)
        self.log_outstanding = octets.words(log)
        for entry in range(log):
            self.log_psn[entry] = -1

    def _free_log(self) -> None:
        octets.free_words(self.log_psn)
        octets.free_words(self.log_sent_at)
        octets.free_words(self.log_size)
        octets.free_words(self.log_ev)
        octets.free_words(self.log_outstanding)

    def __dealloc__(self) -> None:
        self._free_log()

    def _grow_log(self) -> None:
        psn: pointer = self.log_psn
        sent_at: pointer = self.log_sent_at
        size: pointer = self.log_size
        ev: pointer = self.log_ev
        outstanding: pointer = self.log_outstanding
        mask = self.log_mask
        self._make_log(2 * (mask + 1))
        # What is settled may be asked for too.
        number = max(0, self.next_transmission - mask - 1)
        while number < self.next_transmission:
            entry = number & self.log_mask
            self.log_psn[entry], self.log_sent_at[entry] = psn[number & mask], sent_at[number & mask]
            self.log_size[entry], self.log_ev[entry] = size[number & mask], ev[number & mask]
            self.log_outstanding[entry] = outstanding[number & mask]
            number += 1
        octets.free_words(psn)
        octets.free_words(sent_at)
        octets.free_words(size)
        octets.free_words(ev)
        octets.free_words(outstanding)

    # ------------------------------------------------------------------ sending

    def make_log_room(self, wanted: int) -> int:
        """Transmissions that fit before the oldest unsettled one would be overwritten, after forgetting what is settled
        if fewer than `wanted` fit."""
        if self._log_room() < wanted:
            self.skip_settled()
            while self._log_room() < wanted and self.log_mask + 1 < self._most_log:
                self._grow_log()
        return self._log_room()

    def _log_room(self) -> int:
        return self.log_mask + 1 - (self.next_transmission - self.head)

    def transmit_one(self, size: int, ev: int, now: int) -> None:
        """Take the next PSN into use and record that it leaves now, with this nominal size in bytes, on the EV of this
        index."""
        psn = self._take_next()
        self.transmit_again_one(psn, size, ev, now)

    def transmit_again_one(self, psn: int, size: int, ev: int, now: int) -> None:
        """Record that a PSN that is in use leaves now."""
        number = self.next_transmission
        slot, entry = psn & self.mask, number & self.log_mask
        self.next_transmission = number + 1
        self.state[slot] = _OUTSTANDING
        self.times_sent[slot] += 1
        self.transmission[slot] = number
        self.log_psn[entry] = psn
        self.log_sent_at[entry] = now
        self.log_size[entry] = size
        self.log_ev[entry] = ev
        self.log_outstanding[entry] = 1
        self.outstanding += 1

    def _take_next(self) -> int:
        psn = self.next_psn
        slot = psn & self.mask
        self.next_psn = psn + 1
        self.psn[slot] = psn
        self.times_sent[slot] = 0
        self.retries[slot] = 0
        self.waits[slot] = 0
        self.due_at[slot] = -1
        self.blamed[slot] = -1
        return psn

    def waits_to_leave(self, psn: int) -> bool:
        """Whether a PSN that was lost has still to be sent again."""
        return psn >= self.una and self.state[psn & self.mask] == _LOST

    # ------------------------------------------------------------------ what becomes of it

    def settle(self, transmission: int) -> int:
        """This transmission is no longer in the network. Returns its bytes if it was until now, else 0."""
        entry = transmission & self.log_mask
        if not self.log_outstanding[entry]:
            return 0
        self.log_outstanding[entry] = 0
        self.outstanding -= 1
        return self.log_size[entry]

    def transmitted(self, transmission: int) -> may_raise[tuple[int, int, int]]:
        """PSN, index of the EV and time of a transmission of late."""
        entry: int = transmission & self.log_mask
        return self.log_psn[entry], self.log_ev[entry], self.log_sent_at[entry]

    def bytes_outstanding(self) -> int:
        """The bytes of all transmissions that are in the network."""
        total, number = 0, self.head
        while number < self.next_transmission:
            if self.log_outstanding[number & self.log_mask]:
                total += self.log_size[number & self.log_mask]
            number += 1
        return total

    def settle_all(self) -> int:
        """Nothing is in the network any more. Returns the bytes that were."""
        total, number = 0, self.head
        while number < self.next_transmission:
            total += self.settle(number)
            number += 1
        return total

    def lose(self, transmission: int) -> int:
        """This outstanding transmission is lost. Returns its bytes."""
        size = self.settle(transmission)
        entry = transmission & self.log_mask
        slot = self.log_psn[entry] & self.mask
        self.state[slot] = _LOST
        self.lost_ev[slot] = self.log_ev[entry]
        return size

    def skip_settled(self) -> None:
        """Move `head` to the oldest outstanding transmission: timers settle without the help of a hole."""
        while self.head < self.next_transmission and not self.log_outstanding[self.head & self.log_mask]:
            self.head += 1
