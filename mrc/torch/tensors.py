# SPDX-License-Identifier: BSD-2-Clause
"""Tensors as numpy arrays, of the same memory where it can be, and torch's reductions as ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from mrc.collectives import ReduceOp
from mrc.errors import CallerError

_REDUCTIONS = (
    (dist.ReduceOp.SUM, ReduceOp.SUM),
    (dist.ReduceOp.AVG, ReduceOp.MEAN),
    (dist.ReduceOp.MIN, ReduceOp.MIN),
    (dist.ReduceOp.MAX, ReduceOp.MAX),
    (dist.ReduceOp.PRODUCT, ReduceOp.PROD),
    (dist.ReduceOp.BAND, ReduceOp.BAND),
    (dist.ReduceOp.BOR, ReduceOp.BOR),
    (dist.ReduceOp.BXOR, ReduceOp.BXOR),
)


def reduction_of(op: Any) -> ReduceOp:
    """Raises CallerError for one that there is not."""
    for theirs, ours in _REDUCTIONS:
        if op == theirs:
            return ours
    raise CallerError(f"the backend mrc reduces by SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR and BXOR, not by {op}")


class Arguments:
    """The tensors of one call, as arrays.

    Arrays share the memory of contiguous tensors. Others go by way of a contiguous copy in the order of their indices,
    so what arrives does not depend on how a rank has laid its tensor out. `hand_back` copies results to their tensors.
    """

    def __init__(self) -> None:
        self._copies: list[tuple[Tensor, Tensor]] = []

    def reads(self, tensor: Tensor) -> NDArray[Any]:
        """The values of a tensor that is only read, as one row: of its type, so that ranks whose types differ find out;
        bytes where numpy has no such type. Raises CallerError for one that is not dense or not in this host's memory.
        """
        return _row(_contiguous(tensor))

    def writes(self, tensor: Tensor) -> NDArray[Any]:
        """The same of a tensor that is written, and perhaps read before. Raises CallerError as `reads` does, and for
        one several of whose values share a place."""
        return _row(self._written(tensor))

    def read_values(self, tensor: Tensor) -> NDArray[Any]:
        """A tensor's values, as one row of a type that can be reduced. Raises CallerError as `reads` does."""
        return _values(_contiguous(tensor))

    def written_values(self, tensor: Tensor) -> NDArray[Any]:
        """The same of one that is written."""
        return _values(self._written(tensor))

    def all_read(self, tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
        return [self.reads(tensor) for tensor in tensors]

    def all_written(self, tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
        return [self.writes(tensor) for tensor in tensors]

    @property
    def hand_back(self) -> Callable[[], None] | None:
        """What to do once the call is done; None: nothing."""
        return self._hand_back if self._copies else None

    def _hand_back(self) -> None:
        for tensor, copied in self._copies:
            tensor.copy_(copied)

    def _written(self, tensor: Tensor) -> Tensor:
        contiguous = _contiguous(tensor)
        if contiguous.data_ptr() != tensor.data_ptr():
            if _overlaps(tensor):
                raise CallerError(
                    f"several values of the tensor share a place (shape {tuple(tensor.shape)}, strides "
                    f"{tensor.stride()}), and results go there: pass tensor.clone()"
                )
            self._copies.append((tensor.detach(), contiguous))
        return contiguous


def rows_of(array: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """A tensor's array with a row for each of its first axis."""
    rows = tensor.shape[0] if tensor.dim() else 1
    return array.reshape(rows, -1) if tensor.numel() else np.empty((rows, 0), array.dtype)


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array."""
    return array.view(np.uint8)


def only(tensors: Sequence[Tensor], operation: str) -> Tensor:
    """The one tensor of a list that torch passes."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise CallerError(f"{operation} takes one tensor of each process, got {len(tensors)}")
    return tensors[0]


def _contiguous(tensor: Tensor) -> Tensor:
    """The tensor itself where it lies in one piece, in the order of its indices, or such a copy."""
    if tensor.device.type != "cpu":
        raise CallerError(f"the backend mrc moves CPU tensors, and this one is on {tensor.device}: pass tensor.cpu()")
    if tensor.layout is not torch.strided:
        raise CallerError(
            f"the backend mrc moves dense tensors, and this one is {tensor.layout}: pass tensor.to_dense() (all_reduce "
            "takes sparse COO tensors as well)"
        )
    if tensor.is_quantized:
        # Its bytes mean nothing without its scale, which may be another at each rank.
        raise CallerError("the backend mrc moves no quantized tensors: pass tensor.int_repr() or tensor.dequantize()")
    # What is only marked as conjugated or negated lies in memory as it was.
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _overlaps(tensor: Tensor) -> bool:
    """Whether two indices may name one place in memory."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size <= 1:
            continue
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def _row(tensor: Tensor) -> NDArray[Any]:
    found = _typed(tensor)
    if found is None:
        found = tensor.reshape(-1).view(torch.uint8).numpy()
    return found


def _values(tensor: Tensor) -> NDArray[Any]:
    found = _typed(tensor)
    if found is None:
        raise CallerError(f"no reduction of {tensor.dtype}: convert the tensor, for example to float32")
    return found


def _typed(tensor: Tensor) -> NDArray[Any] | None:
    """Values of a type that numpy has, or None."""
    flat = tensor.reshape(-1)
    try:
        values: NDArray[Any] = flat.view(torch.int16).numpy() if flat.dtype is torch.bfloat16 else flat.numpy()
    except TypeError:
        return None
    return values.view(ml_dtypes.bfloat16) if flat.dtype is torch.bfloat16 else values
