# SPDX-License-Identifier: BSD-2-Clause
"""What a flow writes, known at both ends: so that the target can compare every byte with what should be there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.errors import CallerError

# Prime to the slots of a ring: each lap puts other bytes into a slot, so that nothing stale passes for new.
VARIANTS = 31
SLOTS = 256
_WORD = 8


@dataclass(frozen=True, slots=True)
class Pattern:
    """Write number n is variant n modulo VARIANTS of `size` random bytes, to slot n modulo SLOTS of the target's ring.

    `size` is a multiple of 8. The same `seed` gives the same bytes. Raises CallerError for another size.
    """

    seed: int
    size: int

    def __post_init__(self) -> None:
        if self.size < _WORD or self.size % _WORD:
            raise CallerError(f"a write of a drill is a multiple of {_WORD} bytes, got {self.size}")

    @property
    def ring_bytes(self) -> int:
        return SLOTS * self.size

    def content(self) -> npt.NDArray[np.uint8]:
        """All variants, one after the other."""
        return np.random.default_rng(self.seed).integers(0, 256, VARIANTS * self.size, np.uint8)

    def source_offset(self, number: int) -> int:
        """Where write `number` begins in `content`."""
        return number % VARIANTS * self.size

    def ring_offset(self, number: int) -> int:
        """Where write `number` begins in the target's ring."""
        return number % SLOTS * self.size


class Comparison:
    """Compares a ring with the pattern, a write at a time."""

    def __init__(self, pattern: Pattern, ring: npt.NDArray[np.uint8]) -> None:
        self._pattern = pattern
        self._words = pattern.content().view(np.uint64)
        self._ring = ring.view(np.uint64)

    def wrong_bytes(self, number: int) -> int:
        """Bytes of write `number` that are not in the ring as they were sent, counted in whole words of 8."""
        words = self._pattern.size // _WORD
        sent_at, placed_at = (
            self._pattern.source_offset(number) // _WORD,
            self._pattern.ring_offset(number) // _WORD,
        )
        wrong = self._words[sent_at : sent_at + words] != self._ring[placed_at : placed_at + words]
        return int(np.count_nonzero(wrong)) * _WORD
