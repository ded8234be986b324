# SPDX-License-Identifier: BSD-2-Clause
"""Columns and rows of bytes as numpy's arrays of the same memory.

numpy is loaded when it is asked for: a process that only transfers files never asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from mrc.wire.fields import U8


def array_of(column: memoryview) -> npt.NDArray[Any]:
    """Numbers, of the type they have in the column."""
    import numpy as np

    return np.asarray(column)


def rows_of(flat: memoryview, length: int) -> U8:
    """Rows of `length` bytes each."""
    import numpy as np

    return np.asarray(flat, np.uint8).reshape(-1, length)
