"""What may be done with the values of all ranks, and for which types."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.errors import CallerError

Kernel = Callable[..., Any]


class ReduceOp(IntEnum):
    """How the values of all ranks become one. MEAN is the sum divided by the number of ranks, for floats only."""

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
# By the number that tells ranks of it. bfloat16 and others are ml_dtypes', known to numpy once that is imported.
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


class Reduction:
    """One operation on values of one type. Raises CallerError for a type it does not know or is not for."""

    __slots__ = ("_divides", "_dtype", "_kernel", "op")

    def __init__(self, op: ReduceOp, dtype: np.dtype[Any]) -> None:
        try:
            self.op = ReduceOp(op)
        except ValueError:
            raise CallerError(f"op must be one of {', '.join(map(str, ReduceOp))}, got {op!r}") from None
        name = dtype.name
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
        """`first` and `second`, in this order, put into one of them. Bytes of as many values each."""
        dtype = self._dtype
        self._kernel(first.view(dtype), second.view(dtype), out=into.view(dtype))

    def finish(self, values: NDArray[np.uint8], ranks: int) -> None:
        """What is left once all ranks are in: the division of a mean."""
        if self._divides:
            typed = values.view(self._dtype)
            np.divide(typed, self._dtype.type(ranks), out=typed)
