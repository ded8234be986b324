# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What the responder remembers of what it received: one bit a PSN, in a ring."""

from __future__ import annotations

from mrc.wire.compiled import public, python, u8s, unsigned

_BITS = 64
_LEAST_RING = 256


class ReceivedPsns:
    """Arrival bits from `epsn` (the next PSN expected, cack_psn + 1) on. PSNs are unbounded here.

    `highest` is the highest PSN received (epsn - 1 when none is above), `held` how many lie above a hole,
    `completed` how many messages have wholly arrived. Every step costs what it touches, never what the window holds.
    """

    _arrived: u8s
    _ends: u8s
    _mask: int
    epsn: public[int]
    highest: int
    held: int
    completed: int

    __slots__ = tuple(__annotations__)

    def __init__(self, span: int, first_psn: int) -> None:
        size = ring_size(span)
        self._mask = size - 1
        self._arrived = memoryview(bytearray(size))
        self._ends = memoryview(bytearray(size))
        self.epsn = first_psn
        self.highest = first_psn - 1
        self.held = 0
        self.completed = 0

    @property
    def cack_psn(self) -> int:
        return self.epsn - 1

    def make_room(self, span: int) -> python[None]:
        """Be ready for PSNs up to epsn + span - 1. The ring never shrinks."""
        size = ring_size(span)
        if size <= self._mask + 1:
            return
        arrived, ends = memoryview(bytearray(size)), memoryview(bytearray(size))
        for psn in range(self.epsn, self.highest + 1):
            arrived[psn & size - 1] = self._arrived[psn & self._mask]
            ends[psn & size - 1] = self._ends[psn & self._mask]
        self._arrived, self._ends, self._mask = arrived, ends, size - 1

    def has(self, psn: int) -> bool:
        """Whether a PSN (epsn or above, inside the span) has arrived."""
        return self._arrived[psn & self._mask] != 0

    def edge_after(self, psn: int) -> int:
        """epsn as it will be once this new PSN has arrived."""
        return self.edge_from(psn + 1) if psn == self.epsn else self.epsn

    def edge_from(self, edge: int) -> int:
        """The first PSN from `edge` on that has not arrived."""
        while edge <= self.highest and self._arrived[edge & self._mask]:
            edge += 1
        return edge

    def add(self, psn: int, ends: bool, stop: int) -> bool:
        """Take this new PSN as arrived; `ends` says it is the last of its message. The left edge does not pass `stop`.
        True when it moved."""
        if psn > self.highest:
            self.highest = psn
        if psn != self.epsn or psn == stop:
            self._arrived[psn & self._mask] = 1
            self._ends[psn & self._mask] = ends
            self.held += 1
            return False
        self.completed += ends
        self._move_edge(psn + 1, stop)
        return True

    def go_on(self, stop: int) -> None:
        """What held the left edge back is gone: it moves up to `stop`."""
        self._move_edge(self.epsn, stop)

    def _move_edge(self, edge: int, stop: int) -> None:
        """The left edge moves to `edge` and over what arrived before, up to `stop`."""
        while edge < stop and edge <= self.highest and self._arrived[edge & self._mask]:
            self._arrived[edge & self._mask] = 0
            self.completed += self._ends[edge & self._mask]
            self.held -= 1
            edge += 1
        self.epsn = edge

    def bitmap(self, base: int) -> unsigned:
        """The 64-bit map of arrivals from `base` (epsn or above) on, least significant bit first."""
        found: unsigned = 0
        if not self.held:
            return found
        count = self.highest + 1 - base
        if count > _BITS:
            count = _BITS
        while count > 0:
            count -= 1
            found = found << 1 | self._arrived[base + count & self._mask]
        return found


def ring_size(span: int) -> python[int]:
    """Places of a ring that holds `span` PSNs."""
    return max(_LEAST_RING, 1 << (span - 1).bit_length())
