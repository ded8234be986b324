# SPDX-License-Identifier: BSD-2-Clause
"""What ranks put in, and numpy's own result of it: each rank works out what every other one has put in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.bench.collectives.plan import Job

# Values that one generator gives: any part of a stream can be had without what is before it.
_BLOCK = 1 << 16


def stream(rank: int, repetition: int, dtype: str, redop: str, start: int, length: int) -> NDArray[Any]:
    """`length` values of what a rank puts in, from its value `start` on. Integers are of the type's whole range."""
    found = []
    first, last = start // _BLOCK, (start + length - 1) // _BLOCK
    for block in range(first, last + 1):
        random = np.random.Generator(np.random.Philox(key=[repetition << 32 | rank, block]))
        found.append(_values(random, np.dtype(dtype), redop))
    whole = np.concatenate(found)
    return whole[start - first * _BLOCK :][:length]


def _values(random: np.random.Generator, dtype: np.dtype[Any], redop: str) -> NDArray[Any]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, _BLOCK, dtype, endpoint=True)
    # Around 1, so that the product of many ranks stays in the type's range.
    low, high = (0.75, 1.25) if redop == "prod" else (-1.0, 1.0)
    return random.uniform(low, high, _BLOCK).astype(dtype)


@dataclass(frozen=True, slots=True)
class Span:
    """`length` values of a result from `at` on: those of rank `source` from `start` on; None: of all ranks, reduced."""

    at: int
    length: int
    source: int | None
    start: int


def origins(job: Job, count: int) -> list[Span]:
    """Where the values of this rank's result come from. Empty where an operation leaves it nothing."""
    rank, ranks = job.rank, job.ranks
    match job.kind:
        case "allreduce":
            return [Span(0, count, None, 0)]
        case "reduce":
            return [Span(0, count, None, 0)] if rank == job.root else []
        case "reducescatter":
            return [Span(0, count, None, rank * count)]
        case "allgather":
            return [Span(other * count, count, other, 0) for other in range(ranks)]
        case "alltoall":
            return [Span(other * count, count, other, rank * count) for other in range(ranks)]
        case "broadcast":
            return [Span(0, count, job.root, 0)]
        case "sendrecv":
            return [Span(0, count, (rank - 1) % ranks, 0)]
    raise AssertionError(job.kind)


def wrong_values(result: NDArray[Any], job: Job, repetition: int) -> int:
    """How many values of a result are not numpy's.

    Integers, and what is not added or multiplied, agree in every bit. A float may be off by `ranks` roundings of the
    sum of the absolute values, or of the product (docs/bench.md).
    """
    count = len(result) // (job.ranks if job.kind in ("allgather", "alltoall") else 1)
    return sum(_wrong_in(result, span, job, repetition) for span in origins(job, count))


def _wrong_in(result: NDArray[Any], span: Span, job: Job, repetition: int) -> int:
    wrong = 0
    for offset, length in _blocks(span.length):
        got = result[span.at + offset :][:length]
        start = span.start + offset
        if span.source is not None:
            good = got == stream(span.source, repetition, job.dtype, job.redop, start, length)
        else:
            ranks = range(job.ranks)
            inputs = np.stack([stream(rank, repetition, job.dtype, job.redop, start, length) for rank in ranks])
            good = _is_reduced(got, inputs, job.redop)
        wrong += int(np.count_nonzero(~good))
    return wrong


def _blocks(length: int) -> Iterator[tuple[int, int]]:
    for offset in range(0, length, _BLOCK):
        yield offset, min(_BLOCK, length - offset)


def _is_reduced(got: NDArray[Any], inputs: NDArray[Any], redop: str) -> NDArray[np.bool_]:
    """Which values of `got` are the rows of `inputs` reduced."""
    dtype, ranks = inputs.dtype, len(inputs)
    if redop in ("min", "max"):
        return np.asarray(got == (inputs.min(axis=0) if redop == "min" else inputs.max(axis=0)))
    if dtype.kind in "iu":
        reduce = np.add.reduce if redop == "sum" else np.multiply.reduce
        return np.asarray(got == reduce(inputs, axis=0, dtype=dtype))
    wide = inputs.astype(np.longdouble)
    precision = np.finfo(dtype)
    if redop == "prod":
        right = wide.prod(axis=0)
        allowed = np.abs(right)
    else:
        right, allowed = wide.sum(axis=0), np.abs(wide).sum(axis=0)
        if redop == "avg":
            right, allowed = right / ranks, allowed / ranks
    allowed = ranks * (precision.eps * allowed + np.longdouble(precision.smallest_subnormal))
    # What is not a number is within nothing.
    return np.asarray(np.abs(got.astype(np.longdouble) - right) <= allowed)
