# SPDX-License-Identifier: BSD-2-Clause
"""Columns of whole numbers that take memory where they are touched, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbers(count: int, value: int = 0) -> memoryview:
    """So many signed numbers of 64 bits."""
    made = np.zeros(count, np.int64)
    if value:
        made[:] = value
    return _view(made).cast("B").cast("q")


def short_numbers(count: int, value: int = 0) -> memoryview:
    """So many signed numbers of 32 bits."""
    made = np.zeros(count, np.int32)
    if value:
        made[:] = value
    return _view(made)


def octets(count: int) -> memoryview:
    """So many bytes."""
    return _view(np.zeros(count, np.uint8))


def _view(made: Any) -> memoryview:
    return memoryview(made)
