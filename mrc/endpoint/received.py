"""What the responder remembers of what it received: one bit a PSN, in a ring."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BITS = 64
_SCAN = 256  # PSNs looked at per step when the left edge moves
_LEAST_RING = 256


class ReceivedPsns:
    """Arrival bits from `epsn` (the next PSN expected, cack_psn + 1) on. PSNs are unbounded here.

    `highest` is the highest PSN received (epsn - 1 when none is above), `held` how many lie above a hole,
    `completed` how many messages have wholly arrived. Every step costs what it touches, never what the window holds.
    """

    __slots__ = ("_arrived", "_ends", "_mask", "completed", "epsn", "held", "highest")

    def __init__(self, span: int, first_psn: int) -> None:
        size = ring_size(span)
        self._mask = size - 1
        self._arrived: Bools = np.zeros(size, np.bool_)
        self._ends: Bools = np.zeros(size, np.bool_)
        self.epsn = first_psn
        self.highest = first_psn - 1
        self.held = 0
        self.completed = 0

    @property
    def cack_psn(self) -> int:
        return self.epsn - 1

    def make_room(self, span: int) -> None:
        """Be ready for PSNs up to epsn + span - 1. The ring never shrinks."""
        size = ring_size(span)
        if size <= self._mask + 1:
            return
        kept = np.arange(self.epsn, self.highest + 1, dtype=np.int64)
        arrived, ends = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        arrived[kept & size - 1] = self._arrived[kept & self._mask]
        ends[kept & size - 1] = self._ends[kept & self._mask]
        self._arrived, self._ends, self._mask = arrived, ends, size - 1

    def arrived(self, psns: I64) -> Bools:
        """Which of these PSNs (epsn or above, inside the span) have arrived."""
        return np.asarray(self._arrived[psns & self._mask])

    def has(self, psn: int) -> bool:
        """`arrived` for one PSN."""
        return bool(self._arrived[psn & self._mask])

    def add_run(self, count: int, ended: int) -> None:
        """Take the next `count` PSNs from epsn on as arrived, while nothing is held; `ended` end their message."""
        self.epsn += count
        self.highest = self.epsn - 1
        self.completed += ended

    def add(self, psns: I64, ends: Bools) -> bool:
        """Take these new PSNs as arrived; `ends` marks the last of a message. True when the left edge moved."""
        slots = psns & self._mask
        self._arrived[slots] = True
        self._ends[slots] = ends
        self.highest = max(self.highest, int(psns.max()))
        self.held += len(psns)
        return self._advance()

    def add_one(self, psn: int, ends: bool) -> bool:
        """`add` for one PSN, in plain numbers."""
        slot = psn & self._mask
        self._arrived[slot] = True
        self._ends[slot] = ends
        self.highest = max(self.highest, psn)
        self.held += 1
        return psn == self.epsn and self._advance()

    def _advance(self) -> bool:
        before = self.epsn
        while self.epsn <= self.highest and self.has(self.epsn):
            span = np.arange(self.epsn, min(self.epsn + _SCAN, self.highest + 1), dtype=np.int64) & self._mask
            here = self._arrived[span]
            run = len(here) if here.all() else int(here.argmin())
            done = span[:run]
            self._arrived[done] = False
            self.completed += int(np.count_nonzero(self._ends[done]))
            self.epsn += run
        moved = self.epsn - before
        self.held -= moved
        return moved > 0

    def bitmap(self, base: int) -> int:
        """The 64-bit map of arrivals from `base` (epsn or above) on, least significant bit first."""
        if not self.held:
            return 0
        count = min(_BITS, self.highest + 1 - base)
        if count <= 0:
            return 0
        start = base & self._mask
        bits = self._arrived[start : start + count]
        if len(bits) < count:
            bits = np.concatenate((bits, self._arrived[: count - len(bits)]))
        return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def ring_size(span: int) -> int:
    """Places of a ring that holds `span` PSNs."""
    return max(_LEAST_RING, 1 << (span - 1).bit_length())
