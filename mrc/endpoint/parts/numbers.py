# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Signed 64-bit numbers as compiled code keeps them without the interpreter: in columns, in a heap, in a table."""

from __future__ import annotations

import os
from array import array

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.wire import octets
from mrc.wire.compiled import any_int, pointer, python, unsigned

_WORD, _NONE = 8, -1
_SIGN: any_int = 1 << 63
_LEAST_ROOM = _LEAST_ROWS = 16
_HASH_MASK: unsigned = 0xFFFFFFFF
_HASH_BITS = 32
# Drawn for each process: a peer that chooses keys cannot choose them so that they get in each other's way.
_SALT: unsigned = int.from_bytes(os.urandom(4), "big") | 1


def column(length: int, value: int = 0) -> python[memoryview]:
    """So many numbers, all `value`."""
    return memoryview(array("q", (value,)) * length) if value else memoryview(bytearray(_WORD * length)).cast("q")


def longer(numbers: memoryview, length: int) -> python[memoryview]:
    """A column of so many that begins with these; the others are 0."""
    made = column(length)
    made[: len(numbers)] = numbers
    return made


def signed(number: int) -> python[int]:
    """What a column has for a number of 64 bits, with or without a sign."""
    return number if -_SIGN <= number < _SIGN else (number + _SIGN) % (2 * _SIGN) - _SIGN


class Heap:
    """Pairs of numbers in order of their keys, then of their values. `count` of them are in it."""

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
        return self._keys[0] if self.count else FOREVER

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


class Table:
    """`count` rows of `width` numbers. The first of a row is its key: not negative, and no other row's.

    A row begins at some place of `cells`, which has `size` of them; it moves when others come or go. A place where no
    row is holds -1.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.size = _LEAST_ROWS * width
        self._shift: int = _HASH_BITS + 1 - _LEAST_ROWS.bit_length()
        self.cells = octets.words(self.size)
        self.clear()

    def __dealloc__(self) -> None:
        octets.free_words(self.cells)

    def find(self, key: int) -> int:
        """Where the row of this key begins, -1 where there is none."""
        at = self._home(key)
        while self.cells[at] != key:
            if self.cells[at] == _NONE:
                return _NONE
            at = self._next(at)
        return at

    def put(self, key: int) -> int:
        """Add a row for a key that has none. Returns where it begins; what it holds besides its key is up to the
        caller."""
        if 2 * (self.count + 1) * self._width > self.size:
            self._grow()
        at = self._home(key)
        while self.cells[at] != _NONE:
            at = self._next(at)
        self.cells[at] = key
        self.count += 1
        return at

    def remove(self, at: int) -> None:
        """Take out the row that begins here. Rows behind it close up."""
        gap, each = at, self._next(at)
        while self.cells[each] != _NONE:
            if self._distance(self._home(self.cells[each]), each) >= self._distance(gap, each):
                for column in range(self._width):
                    self.cells[gap + column] = self.cells[each + column]
                gap = each
            each = self._next(each)
        self.cells[gap] = _NONE
        self.count -= 1

    def clear(self) -> None:
        """Take out all rows."""
        self.count = at = 0
        while at < self.size:
            self.cells[at] = _NONE
            at += self._width

    def cell(self, place: int) -> python[int]:
        """One of `cells`, for callers in Python."""
        return self.cells[place]

    def set_cell(self, place: int, value: int) -> python[None]:
        """As `cell`."""
        self.cells[place] = value

    def rows(self) -> python[list[tuple[int, ...]]]:
        """All rows, by their keys."""
        starts = [at for at in range(0, self.size, self._width) if self.cells[at] != _NONE]
        return sorted(tuple([self.cells[at + column] for column in range(self._width)]) for at in starts)

    def _grow(self) -> None:
        old: pointer = self.cells
        size, at = self.size, 0
        self.size = 2 * size
        self._shift -= 1
        self.cells = octets.words(self.size)
        self.clear()
        while at < size:
            if old[at] != _NONE:
                place = self.put(old[at])
                for column in range(self._width):
                    self.cells[place + column] = old[at + column]
            at += self._width
        octets.free_words(old)

    def _home(self, key: unsigned) -> int:
        """Where a row of this key belongs."""
        return (((key & _HASH_MASK) * _SALT & _HASH_MASK) >> self._shift) * self._width

    def _next(self, at: int) -> int:
        return at + self._width if at + self._width < self.size else 0

    def _distance(self, start: int, at: int) -> int:
        """How far it is from one place to another, going on at the beginning behind the end."""
        return at - start if at >= start else at - start + self.size
