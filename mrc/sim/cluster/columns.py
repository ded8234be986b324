"""Columns of whole numbers that take memory where they are touched, and not before."""

from __future__ import annotations

import numpy as np


def numbers(count: int, value: int = 0) -> memoryview:
    """So many signed numbers of 64 bits."""
    made = np.zeros(count, np.int64)
    if value:
        made[:] = value
    return memoryview(made).cast("B").cast("q")


def short_numbers(count: int, value: int = 0) -> memoryview:
    """So many signed numbers of 32 bits."""
    made = np.zeros(count, np.int32)
    if value:
        made[:] = value
    return memoryview(made)


def octets(count: int) -> memoryview:
    """So many bytes."""
    return memoryview(np.zeros(count, np.uint8))
