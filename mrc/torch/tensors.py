"""Tensors as numpy arrays of the same memory, and torch's reductions as ours."""

from __future__ import annotations

from collections.abc import Sequence
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
)


def reduction_of(op: Any) -> ReduceOp:
    """Raises CallerError for one that there is not."""
    for theirs, ours in _REDUCTIONS:
        if op == theirs:
            return ours
    raise CallerError(f"the backend mrc reduces by SUM, AVG, MIN, MAX and PRODUCT, not by {op}")


def values_of(tensor: Tensor) -> NDArray[Any]:
    """A tensor's values, as one row of a type that can be reduced. Raises CallerError as `bytes_of` does."""
    flat = _flat(tensor)
    try:
        values: NDArray[Any] = flat.view(torch.int16).numpy() if flat.dtype is torch.bfloat16 else flat.numpy()
    except TypeError:
        raise CallerError(f"no reduction of {tensor.dtype}: convert the tensor, for example to float32") from None
    return values.view(ml_dtypes.bfloat16) if flat.dtype is torch.bfloat16 else values


def bytes_of(tensor: Tensor) -> NDArray[np.uint8]:
    """A tensor's bytes, whatever its type. Raises CallerError for one that is not in this host's memory, not dense or
    not contiguous."""
    values: NDArray[np.uint8] = _flat(tensor).view(torch.uint8).numpy()
    return values


def rows_of(tensor: Tensor) -> NDArray[np.uint8]:
    """A tensor's bytes, a row for each of its first axis."""
    rows = tensor.shape[0] if tensor.dim() else 1
    return bytes_of(tensor).reshape(rows, -1) if tensor.numel() else np.empty((rows, 0), np.uint8)


def all_bytes(tensors: Sequence[Tensor]) -> list[NDArray[np.uint8]]:
    return [bytes_of(tensor) for tensor in tensors]


def only(tensors: Sequence[Tensor], operation: str) -> Tensor:
    """The one tensor of a list that torch passes."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise CallerError(f"{operation} takes one tensor of each process, got {len(tensors)}")
    return tensors[0]


def _flat(tensor: Tensor) -> Tensor:
    if tensor.device.type != "cpu":
        raise CallerError(f"the backend mrc moves CPU tensors, and this one is on {tensor.device}: pass tensor.cpu()")
    if tensor.layout is not torch.strided:
        raise CallerError(
            f"the backend mrc moves dense tensors, and this one is {tensor.layout}: pass tensor.to_dense()"
        )
    if not tensor.is_contiguous():
        raise CallerError(
            f"the tensor is not contiguous (shape {tuple(tensor.shape)}, strides {tensor.stride()}): pass "
            "tensor.contiguous(), and copy the result back if you need it there"
        )
    return tensor.detach().reshape(-1)
