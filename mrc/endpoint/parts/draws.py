# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
# cython: overflowcheck=False
# Its numbers wrap at 2**64, in a build with checks too.
"""Pseudo-random numbers for compiled code: SplitMix64 (Steele, Lea, Flood 2014), the same interpreted and compiled."""

from __future__ import annotations

from mrc.wire.compiled import i64s, unsigned

_MASK: unsigned = (1 << 64) - 1
_GAMMA: unsigned = 0x9E3779B97F4A7C15
_FIRST: unsigned = 0xBF58476D1CE4E5B9
_SECOND: unsigned = 0x94D049BB133111EB
_LOW: unsigned = (1 << 32) - 1
_RANGE: unsigned = 1 << 32


class Draws:
    """The numbers that follow from one seed of 64 bits. Not for secrets."""

    def __init__(self, seed: int) -> None:
        self._state: unsigned = seed & _MASK

    def next_u64(self) -> unsigned:
        """0..2**64 - 1."""
        self._state = self._state + _GAMMA & _MASK
        mixed: unsigned = self._state
        mixed = (mixed ^ mixed >> 30) * _FIRST & _MASK
        mixed = (mixed ^ mixed >> 27) * _SECOND & _MASK
        return mixed ^ mixed >> 31

    def below(self, count: unsigned) -> int:
        """0..count - 1, each as likely as any other (Lemire 2019). `count` is 1..2**32 - 1."""
        product: unsigned = (self.next_u64() >> 32) * count
        if product & _LOW < count:
            # Of 2**32 numbers so many are too many to share them out equally.
            rest: unsigned = _RANGE % count
            while product & _LOW < rest:
                product = (self.next_u64() >> 32) * count
        return product >> 32

    def shuffle(self, numbers: i64s, start: int, count: int) -> None:
        """Put `count` numbers of a column, from `start` on, in another order, each order as likely as any other."""
        for last in range(count - 1, 0, -1):
            other = start + self.below(last + 1)
            kept = numbers[start + last]
            numbers[start + last] = numbers[other]
            numbers[other] = kept
