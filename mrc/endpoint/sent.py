"""What the requestor remembers of what it sent.

Two rings of plain arrays. By PSN: the state of each sequence number. By transmission: each time a PSN went out, in
the order of sending (a PSN sent again has a new transmission, and only its latest may be outstanding). PSNs
and transmission numbers are unbounded here; `& mask` finds the slot.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
# Places in a ring: a slice where they follow each other, which costs a fraction of the indexes it stands for.
Slots = I64 | slice


class PsnState(IntEnum):
    """A PSN's place in its life. FREE is also what an acknowledged one left behind the window is."""

    FREE = 0
    OUTSTANDING = 1
    LOST = 2  # waits to be sent again
    ACKED = 3


_OUTSTANDING, _LOST, _ACKED = int(PsnState.OUTSTANDING), int(PsnState.LOST), int(PsnState.ACKED)


def _ring_size(at_least: int) -> int:
    return 1 << max(4, (at_least - 1).bit_length())


def _stretch(first: int, count: int, mask: int) -> Slots:
    start = first & mask
    if start + count <= mask + 1:
        return slice(start, start + count)
    return np.arange(first, first + count, dtype=np.int64) & mask


class SentPackets:
    """PSN and transmission rings of one QP. `window` is the most PSNs ever in use at once.

    `una` is the oldest PSN not covered by cack_psn (cack_psn + 1), `next_psn` the next new one; `head` the oldest
    transmission not settled by loss detection, `next_transmission` the next to be made.
    """

    __slots__ = (
        "blamed",
        "by_timer",
        "head",
        "log_ev",
        "log_mask",
        "log_outstanding",
        "log_psn",
        "log_sent_at",
        "log_size",
        "lost_ev",
        "mask",
        "next_psn",
        "next_transmission",
        "outstanding",
        "psn",
        "retries",
        "state",
        "times_sent",
        "transmission",
        "una",
        "waits",
    )

    def __init__(self, window: int, first_psn: int) -> None:
        self.una = self.next_psn = first_psn
        self.head = self.next_transmission = 0
        self.outstanding = 0
        self.make_rings(window)

    def make_rings(self, window: int) -> None:
        """Rings for another window, while nothing has been sent: a QP that never sends is to cost no memory."""
        size = _ring_size(window)
        self.mask = size - 1
        self.psn: I64 = np.full(size, -1, np.int64)
        self.state = np.zeros(size, np.uint8)
        self.times_sent = np.zeros(size, np.int64)
        self.transmission: I64 = np.zeros(size, np.int64)
        # The retries it drew, how often it was told to wait, the EV of the transmission last taken for lost,
        # and the transmission last found lost by a hole or timer (-1: none, or it proved spurious).
        self.retries: I64 = np.zeros(size, np.int64)
        self.waits: I64 = np.zeros(size, np.int64)
        self.lost_ev: I64 = np.zeros(size, np.int64)
        self.blamed: I64 = np.full(size, -1, np.int64)
        # Whether a timer found that loss.
        self.by_timer: Bools = np.zeros(size, np.bool_)
        # Each PSN may go out several times before the oldest transmission is settled.
        log = _ring_size(4 * (size + 1))
        self.log_mask = log - 1
        self.log_psn: I64 = np.full(log, -1, np.int64)
        self.log_sent_at: I64 = np.zeros(log, np.int64)
        self.log_size: I64 = np.zeros(log, np.int64)
        self.log_ev: I64 = np.zeros(log, np.int64)
        self.log_outstanding: Bools = np.zeros(log, np.bool_)

    @property
    def log_room(self) -> int:
        """Transmissions that fit before the oldest unsettled one would be overwritten."""
        return self.log_mask + 1 - (self.next_transmission - self.head)

    def make_log_room(self, wanted: int) -> int:
        """The same, after forgetting what is settled if fewer than `wanted` fit."""
        if self.log_room < wanted:
            self.skip_settled()
        return self.log_room

    def slots_of(self, first_psn: int, count: int) -> Slots:
        """The slots of `count` PSNs from `first_psn` on: a slice unless they run past the ring's end."""
        return _stretch(first_psn, count, self.mask)

    def add_new(self, count: int) -> I64:
        """Take the next `count` PSNs into use. They still have to be `transmit`ted."""
        first = self.next_psn
        psns = np.arange(first, first + count, dtype=np.int64)
        slots = self.slots_of(first, count)
        self.psn[slots] = psns
        self.times_sent[slots] = 0
        self.retries[slots] = 0
        self.waits[slots] = 0
        self.blamed[slots] = -1
        self.next_psn += count
        return psns

    def transmit(self, psns: I64, slots: Slots, sizes: I64, evs: I64, now: int) -> None:
        """Record that these PSNs (in these slots) leave now, in this order: nominal sizes in bytes, EV indexes."""
        count, first = len(psns), self.next_transmission
        self.next_transmission += count
        self.state[slots] = _OUTSTANDING
        self.times_sent[slots] += 1
        self.transmission[slots] = np.arange(first, first + count, dtype=np.int64)
        entries = _stretch(first, count, self.log_mask)
        self.log_psn[entries] = psns
        self.log_sent_at[entries] = now
        self.log_size[entries] = sizes
        self.log_ev[entries] = evs
        self.log_outstanding[entries] = True
        self.outstanding += count

    def transmit_one(self, size: int, ev: int, now: int) -> None:
        """`add_new` and `transmit` of one PSN, in plain numbers."""
        psn = self.next_psn
        slot = psn & self.mask
        self.next_psn = psn + 1
        self.psn[slot] = psn
        self.retries[slot] = self.waits[slot] = self.times_sent[slot] = 0
        self.blamed[slot] = -1
        self.transmit_again_one(psn, size, ev, now)

    def transmit_again_one(self, psn: int, size: int, ev: int, now: int) -> None:
        """`transmit` of one PSN, in plain numbers."""
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
        self.log_outstanding[entry] = True
        self.outstanding += 1

    def settle(self, transmissions: I64) -> int:
        """These transmissions are no longer in the network. Returns the bytes of those that still were."""
        entries = transmissions & self.log_mask
        return self.settle_outstanding(transmissions[self.log_outstanding[entries]])

    def settle_outstanding(self, transmissions: I64) -> int:
        """`settle` for transmissions all of which still are in the network."""
        entries = transmissions & self.log_mask
        self.log_outstanding[entries] = False
        self.outstanding -= len(entries)
        return int(self.log_size[entries].sum())

    def settle_one_outstanding(self, transmission: int) -> int:
        """The same for one transmission, in plain numbers."""
        entry = transmission & self.log_mask
        self.log_outstanding[entry] = False
        self.outstanding -= 1
        return int(self.log_size[entry])

    def mark_lost(self, transmissions: I64) -> tuple[I64, int]:
        """These outstanding transmissions are lost. Returns (their PSNs, their bytes)."""
        size = self.settle(transmissions)
        entries = transmissions & self.log_mask
        psns = self.log_psn[entries]
        slots = psns & self.mask
        self.state[slots] = _LOST
        self.lost_ev[slots] = self.log_ev[entries]
        return psns, size

    def outstanding_until(self, number: int) -> I64:
        """Numbers of the outstanding transmissions from `head` up to, not including, `number`."""
        return self.only_outstanding(np.arange(self.head, number, dtype=np.int64))

    def only_outstanding(self, numbers: I64) -> I64:
        """Those of these transmissions that are still in the network."""
        return np.asarray(numbers[self.log_outstanding[numbers & self.log_mask]])

    def skip_settled(self) -> None:
        """Move `head` to the oldest outstanding transmission: timers settle without the help of a hole."""
        waiting = self.outstanding_until(self.next_transmission)
        self.head = int(waiting[0]) if len(waiting) else self.next_transmission
