"""Reductions, and the types they take."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.errors import CallerError

Kernel = Callable[..., Any]


class ReduceOp(IntEnum):
    """Choose how the values of all ranks become one. MEAN: the sum divided by the number of ranks, for floats only."""

    SUM = 1
    PROD = 2
    MIN = 3
    MAX = 4
    MEAN = 5


_KERNELS: dict[ReduceOp, Kernel] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MEAN: np.add,
}
_ORDERED = frozenset({ReduceOp.MIN, ReduceOp.MAX})
# Their places are their numbers in headers. numpy knows bfloat16 once ml_dtypes is imported.
DTYPES = (
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "bool",
    "bfloat16",
)
_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return numpy's name of a type, which numpy puts together anew whenever it is asked."""
    return dtype.name


class Reduction:
    """Reduce values of one type. Raises CallerError for a type that is unknown or that the operation does not take."""

    __slots__ = ("_divides", "_dtype", "_kernel", "op")

    def __init__(self, op: ReduceOp, dtype: np.dtype[Any]) -> None:
        try:
            self.op = ReduceOp(op)
        except ValueError:
            raise CallerError(f"op must be one of {', '.join(map(str, ReduceOp))}, got {op!r}") from None
        name = dtype_name(dtype)
        if name not in DTYPES or dtype.byteorder == ">":
            raise CallerError(f"no reduction of {dtype}: there are {', '.join(DTYPES)}, in this machine's byte order")
        if name == "bool" and self.op not in _ORDERED:
            raise CallerError(f"{self.op.name} of bool: only MIN (all) and MAX (any) are for bool")
        if self.op is ReduceOp.MEAN and name not in _FLOATS:
            raise CallerError(f"MEAN of {name}: it is for floats; take SUM and divide as you want it rounded")
        self._kernel = _KERNELS[self.op]
        self._divides = self.op is ReduceOp.MEAN
        self._dtype = dtype

    def combine(self, first: NDArray[np.uint8], second: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
        """Reduce `first` and `second`, in this order, into one of them. All are bytes of equally many values."""
        dtype = self._dtype
        self._kernel(first.view(dtype), second.view(dtype), out=into.view(dtype))

    def finish(self, values: NDArray[np.uint8], ranks: int) -> None:
        """Divide the sum of all ranks for MEAN; do nothing for the others."""
        if self._divides:
            typed = values.view(self._dtype)
            np.divide(typed, self._dtype.type(ranks), out=typed)


def reduction_of(op: ReduceOp, dtype: np.dtype[Any]) -> Reduction:
    """Return a reduction of values of one type. Raises CallerError as `Reduction` does."""
    if type(op) is ReduceOp and (known := _KNOWN.get((op, dtype))) is not None:
        return known
    made = Reduction(op, dtype)
    return _KNOWN.setdefault((made.op, dtype), made)


# Small operations are called often, and of few types.
_KNOWN: dict[tuple[ReduceOp, np.dtype[Any]], Reduction] = {}
