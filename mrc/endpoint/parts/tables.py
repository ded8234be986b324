# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A table of numbers: rows that are found by their first one."""

from __future__ import annotations

import os

from mrc.wire import octets
from mrc.wire.compiled import pointer, python, unsigned

_LEAST_ROWS = 16
_HASH_MASK: unsigned = 0xFFFFFFFF
_HASH_BITS = 32
_NONE = -1
# Drawn for each process: a peer that chooses keys cannot choose them so that they get in each other's way.
_SALT: unsigned = int.from_bytes(os.urandom(4), "big") | 1


class Table:
    """`count` rows of `width` signed 64-bit numbers. The first of a row is its key: not negative, and no other row's.

    A row begins at some place of `cells`, which has `size` of them; it moves when others come or go. A place where no
    row is holds -1.
    """

    _width: int
    _shift: int
    count: int
    size: int
    cells: pointer

    __slots__ = tuple(__annotations__)

    def __init__(self, width: int) -> None:
        self._width = width
        self.size = _LEAST_ROWS * width
        self._shift = _HASH_BITS + 1 - _LEAST_ROWS.bit_length()
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
