"""Small array helpers. `np.unique` is not used on hot paths: its first call alone imports for 25 ms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def distinct(values: I64) -> I64:
    """The values in rising order, each once."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    keep = np.empty(len(ordered), np.bool_)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def first_occurrences(values: I64) -> Bools:
    """Marks the first occurrence of each value."""
    count = len(values)
    first = np.ones(count, np.bool_)
    if count < 2:
        return first
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first[order[1:]] = ordered[1:] != ordered[:-1]
    return first
