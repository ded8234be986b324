# SPDX-License-Identifier: BSD-2-Clause
"""Arrays of rows that have a column for each field: what is kept of packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    # Numpy types a column as an array of anything, and mypy then tries all overloads of each operator: it took twice as
    # long for the whole project. What a column is its name says, so for mypy it is Any; rows that are chosen stay rows.
    class Rows(npt.NDArray[np.void]):
        @overload  # type: ignore[override]
        def __getitem__(self, key: str | int | np.integer, /) -> Any: ...
        @overload
        def __getitem__(self, key: slice | npt.NDArray[Any] | Sequence[int], /) -> Rows: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def copy(self) -> Rows: ...  # type: ignore[override]
else:
    Rows = np.ndarray


def empty_rows(count: int, row: np.dtype[np.void]) -> Rows:
    """So many rows of zeros."""
    return cast("Rows", np.zeros(count, row))


def joined_rows(parts: Sequence[Rows], row: np.dtype[np.void]) -> Rows:
    """The rows of all parts, in their order; one part is given back as it is, none is no row."""
    if len(parts) == 1:
        return parts[0]
    return cast("Rows", np.concatenate(parts)) if parts else empty_rows(0, row)
