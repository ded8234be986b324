"""Columns of signed 64-bit numbers, as compiled code reads and writes them without the interpreter."""

from __future__ import annotations

_WORD = 8


def column(length: int, value: int = 0) -> memoryview:
    """So many numbers, all `value`."""
    made = memoryview(bytearray(_WORD * length)).cast("q")
    if value:
        for place in range(length):
            made[place] = value
    return made


def longer(numbers: memoryview, length: int) -> memoryview:
    """A column of so many that begins with these; the others are 0."""
    made = column(length)
    made[: len(numbers)] = numbers
    return made
