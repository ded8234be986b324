# SPDX-License-Identifier: BSD-2-Clause
"""All-reduce of sparse COO tensors: each rank gathers the values of all, and adds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mrc.errors import CallerError

# Puts the tensors of all ranks, which are of one shape, into a list.
Gather = Callable[[Sequence[Tensor], Tensor], None]


def all_reduce_sparse(tensor: Tensor, ranks: int, gather: Gather) -> None:
    """Add the tensors of all ranks into `tensor`, which is coalesced afterwards. Indices may differ between ranks, and
    how many there are.

    Raises CallerError where the shapes or types differ.
    """
    mine = tensor.detach().coalesce()
    count = len(mine.values())
    shape = torch.tensor([mine.sparse_dim(), mine.dense_dim(), count])
    shapes = _of_all(shape, ranks, gather)
    dims = mine.sparse_dim(), mine.dense_dim()
    theirs = [(int(each[0]), int(each[1])) for each in shapes]
    sizes = _of_all(torch.tensor(mine.shape), ranks, gather) if all(each == dims for each in theirs) else []
    for rank in range(ranks):
        if theirs[rank] != dims or tuple(sizes[rank].tolist()) != tuple(mine.shape):
            raise CallerError(
                f"rank {rank} reduces a sparse tensor of another shape than this rank, which has {tuple(mine.shape)} "
                f"with {dims[0]} sparse dimensions: all ranks have to pass the same shape"
            )
    counts = [int(each[2]) for each in shapes]
    most = max(counts)
    indices = torch.zeros(dims[0], most, dtype=torch.int64)
    indices[:, :count] = mine.indices()
    values = torch.zeros((most, *mine.values().shape[1:]), dtype=mine.dtype)
    values[:count] = mine.values()
    all_indices, all_values = _of_all(indices, ranks, gather), _of_all(values, ranks, gather)
    whole = torch.sparse_coo_tensor(
        torch.cat([each[:, :many] for each, many in zip(all_indices, counts, strict=True)], 1),
        torch.cat([each[:many] for each, many in zip(all_values, counts, strict=True)]),
        mine.shape,
    )
    with torch.no_grad():
        tensor.copy_(whole.coalesce())


def _of_all(mine: Tensor, ranks: int, gather: Gather) -> list[Tensor]:
    found = [torch.empty_like(mine) for _ in range(ranks)]
    gather(found, mine)
    return found
