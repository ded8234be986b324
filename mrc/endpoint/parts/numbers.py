# SPDX-License-Identifier: BSD-2-Clause
"""Columns of signed 64-bit numbers, as compiled code reads and writes them without the interpreter."""

from __future__ import annotations

from array import array

_WORD = 8
_SIGN = 1 << 63


def column(length: int, value: int = 0) -> memoryview:
    """So many numbers, all `value`."""
    return memoryview(array("q", (value,)) * length) if value else memoryview(bytearray(_WORD * length)).cast("q")


def longer(numbers: memoryview, length: int) -> memoryview:
    """A column of so many that begins with these; the others are 0."""
    made = column(length)
    made[: len(numbers)] = numbers
    return made


def signed(number: int) -> int:
    """What a column has for a number of 64 bits, with or without a sign."""
    return number if -_SIGN <= number < _SIGN else (number + _SIGN) % (2 * _SIGN) - _SIGN
