# SPDX-License-Identifier: BSD-2-Clause
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
    """Choose how the values of all ranks become one.

    MEAN: the sum divided by the number of ranks; of integers without what is behind the point, towards 0. The sum of
    integers wraps around as the type does. BAND, BOR and BXOR are for integers and bool. For bool SUM is any and PROD
    is all, and there is no MEAN.
    """

    SUM = 1
    PROD = 2
    MIN = 3
    MAX = 4
    MEAN = 5
    BAND = 6
    BOR = 7
    BXOR = 8


_KERNELS: dict[ReduceOp, Kernel] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MEAN: np.add,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
_BITWISE = frozenset({ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR})
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
        if name == "bool" and self.op is ReduceOp.MEAN:
            raise CallerError("MEAN of bool: take PROD for all, SUM for any, or convert it to count")
        if name in _FLOATS and self.op in _BITWISE:
            raise CallerError(f"{self.op.name} of {name}: it is for integers and bool")
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
            if dtype_name(self._dtype) in _FLOATS:
                np.divide(typed, self._dtype.type(ranks), out=typed)
            else:
                # Wide enough for the number of ranks. Towards 0, as C divides; numpy's division is towards -infinity.
                wide = typed.astype(np.uint64 if self._dtype == np.uint64 else np.int64)
                count = wide.dtype.type(ranks)
                np.copyto(typed, (wide - np.fmod(wide, count)) // count, casting="unsafe")


def reduction_of(op: ReduceOp, dtype: np.dtype[Any]) -> Reduction:
    """Return a reduction of values of one type. Raises CallerError as `Reduction` does."""
    if type(op) is ReduceOp and (known := _KNOWN.get((op, dtype))) is not None:
        return known
    made = Reduction(op, dtype)
    return _KNOWN.setdefault((made.op, dtype), made)


# Small operations are called often, and of few types.
_KNOWN: dict[tuple[ReduceOp, np.dtype[Any]], Reduction] = {}
