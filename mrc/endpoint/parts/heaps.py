# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A heap of numbers: what is due first comes out first."""

from __future__ import annotations

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.wire import octets
from mrc.wire.compiled import pointer, python

_LEAST_ROOM = 16
_FOREVER = FOREVER


class Heap:
    """Pairs of signed 64-bit numbers in order of their keys, then of their values. `count` of them are in it."""

    count: int
    _room: int
    _keys: pointer
    _values: pointer

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.count = 0
        self._room = _LEAST_ROOM
        self._keys = octets.words(self._room)
        self._values = octets.words(self._room)

    def __dealloc__(self) -> None:
        octets.free_words(self._keys)
        octets.free_words(self._values)

    def _grow(self) -> None:
        self._keys = octets.longer_words(self._keys, self._room, 2 * self._room)
        self._values = octets.longer_words(self._values, self._room, 2 * self._room)
        self._room *= 2

    def push(self, key: int, value: int) -> None:
        """Put a pair in."""
        if self.count == self._room:
            self._grow()
        place = self.count
        self.count = place + 1
        while place > 0 and self._comes_before(key, value, (place - 1) >> 1):
            self._move((place - 1) >> 1, place)
            place = (place - 1) >> 1
        self._keys[place], self._values[place] = key, value

    def first(self) -> int:
        """The key of the first pair; FOREVER where there is none."""
        return self._keys[0] if self.count else _FOREVER

    def value(self) -> int:
        """The value of the first pair, which there is."""
        return self._values[0]

    def pop(self) -> int:
        """Take out the first pair, which there is. Returns its key."""
        first = self._keys[0]
        self.count -= 1
        last, key, value = self.count, self._keys[self.count], self._values[self.count]
        place, below = 0, 1
        while below < last:
            if below + 1 < last and self._comes_before(self._keys[below + 1], self._values[below + 1], below):
                below += 1
            if not self._comes_before(self._keys[below], self._values[below], last):
                break
            self._move(below, place)
            place, below = below, 2 * below + 1
        self._keys[place], self._values[place] = key, value
        return first

    def clear(self) -> None:
        """Take everything out."""
        self.count = 0

    def keys(self) -> python[list[int]]:
        """All keys, in order."""
        return sorted(self._keys[place] for place in range(self.count))

    def _comes_before(self, key: int, value: int, place: int) -> bool:
        """Whether a pair comes before the one at `place`."""
        return key < self._keys[place] or (key == self._keys[place] and value < self._values[place])

    def _move(self, source: int, place: int) -> None:
        self._keys[place], self._values[place] = self._keys[source], self._values[source]
