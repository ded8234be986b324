# SPDX-License-Identifier: BSD-2-Clause
"""What operations leave in memory, against numpy, in virtual time."""

from __future__ import annotations

from functools import reduce as fold
from itertools import cycle, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from collectives_world import World, world
from numpy.typing import NDArray

from mrc.collectives import Group, ReduceOp
from mrc.collectives.work import Work

SIZES = (1, 2, 3, 4, 5, 8, 16)
# Through slots, by halving, in chunks that do not come out even, and in whole ones.
COUNTS = (0, 1, 2, 7, 128, 129, 1000, 1025, 5000, 8192)
# Every message of many ranks takes its time: of each way one length for them, and not each with everything else.
FEWER = (0, 129, 5000)
FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
KERNELS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def drawn(seed: int, shape: tuple[int, ...], dtype: str = "int32") -> NDArray[Any]:
    """Small numbers, so that neither sums nor products of sixteen of them leave any type but for a wrap."""
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype in FLOATS:
        return random.uniform(0.5, 1.5, shape).astype(kind)
    return random.integers(0, 2 if dtype == "bool" else 100, shape).astype(kind)


def divided(sums: Any, by: int) -> NDArray[Any]:
    """As C divides integers, in Python's own, which have no end."""
    return np.array([[int(abs(int(each)) // by * (1 if each >= 0 else -1)) for each in row] for row in sums], object)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_mean_of_integers_is_their_sum_divided_towards_zero(size: int, dtype: str) -> None:
    """Negative ones too, and the largest there are, which no float of the same size holds."""
    limits = np.iinfo(dtype)
    edges = [limits.max // size, limits.max // size - 1, limits.min // size + 1, 0, 1, 7]
    given = np.array([[max(edge - rank, 0) if edge > 0 else edge for edge in edges] for rank in range(size)]).astype(
        dtype
    )
    with world(size) as ranks:
        arrays = list(given.copy())
        ranks.all(lambda group: group.all_reduce(arrays[group.rank], ReduceOp.MEAN))
        outs = [np.zeros(len(edges), dtype) for _ in range(size)]
        inputs = [np.tile(row, size) for row in given]
        ranks.all(lambda group: group.reduce_scatter(outs[group.rank], inputs[group.rank], ReduceOp.MEAN))
    expected = divided([[sum(int(row[place]) for row in given) for place in range(len(edges))]], size)[0]
    for array in (*arrays, *outs):
        assert array.tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_all_reduce(size: int) -> None:
    with world(size) as ranks:
        for count in FEWER if size > 8 else COUNTS:
            given = drawn(count, (size, count))
            arrays = list(given.copy())
            ranks.all(lambda group, arrays=arrays: group.all_reduce(arrays[group.rank]))
            for array in arrays:
                np.testing.assert_array_equal(array, given.sum(axis=0))


@pytest.mark.parametrize("op", list(ReduceOp))
def test_all_reduce_of_every_type(op: ReduceOp) -> None:
    """Integers are exact. Floats of two ranks are what the processor makes of two values."""
    with world(2) as ranks:
        for dtype, count in product((*INTEGERS, *FLOATS, "bool"), (3, 700, 3001)):
            given = drawn(count, (2, count), dtype)
            if (op is ReduceOp.MEAN and dtype == "bool") or (op in BITWISE and dtype in FLOATS):
                with pytest.raises(ValueError, match=op.name):
                    ranks.groups[0].all_reduce(given[0].copy(), op)
                continue
            arrays = list(given.copy())
            ranks.all(lambda group, arrays=arrays: group.all_reduce(arrays[group.rank], op))
            if op is not ReduceOp.MEAN:
                expected = KERNELS[op](given[0], given[1])
            elif dtype in FLOATS:
                expected = ((given[0] + given[1]) / given.dtype.type(2)).astype(given.dtype)
            else:
                expected = divided([given[0] + given[1]], 2)[0].astype(dtype)
            for array in arrays:
                assert array.tobytes() == expected.tobytes(), (dtype, count)


@pytest.mark.parametrize("size", [3, 4, 7, 16])
def test_floats_of_many_ranks(size: int) -> None:
    """Every rank has the same bits, and they are as near to the true sum as n roundings allow."""
    with world(size) as ranks:
        for dtype, count in list(product(FLOATS, (5, 120, 900, 4001)))[:: 3 if size > 8 else 1]:
            given = drawn(count, (size, count), dtype)
            arrays = list(given.copy())
            ranks.all(lambda group, arrays=arrays: group.all_reduce(arrays[group.rank]))
            assert len({array.tobytes() for array in arrays}) == 1, (dtype, count)
            exact = given.astype(np.float64)
            eps = float(ml_dtypes.finfo(given.dtype).eps)
            bound = size * eps * np.abs(exact).sum(axis=0)
            assert (np.abs(arrays[0].astype(np.float64) - exact.sum(axis=0)) <= bound).all(), (dtype, count)


def on_parts(ranks: World, count: int, *, lists: bool) -> tuple[list[NDArray[Any]], list[Any]]:
    """For each rank values for all ranks, and the same as operations take it."""
    given = [drawn(count + rank, (ranks.size, count)) for rank in range(ranks.size)]
    return given, [list(each) if lists else each for each in given]


@pytest.mark.parametrize("size", SIZES)
def test_what_goes_straight_from_each_to_each(size: int) -> None:
    with world(size) as ranks:
        both = (False, True)
        for count, lists in zip(FEWER if size > 8 else COUNTS, cycle(both)) if size > 5 else product(COUNTS, both):
            given, inputs = on_parts(ranks, count, lists=lists)
            kept = [each.copy() for each in given]
            outs = [np.zeros(count, np.int32) for _ in given]
            ranks.all(
                lambda group, outs=outs, inputs=inputs: group.reduce_scatter(outs[group.rank], inputs[group.rank])
            )
            for rank, out in enumerate(outs):
                np.testing.assert_array_equal(out, sum(each[rank] for each in given) if count else out)

            into, outputs = on_parts(ranks, count, lists=lists)
            ranks.all(lambda group, o=outputs, kept=kept: group.all_gather(o[group.rank], kept[group.rank][0]))
            for each in into:
                np.testing.assert_array_equal(each, [other[0] for other in kept])

            ranks.all(lambda group, o=outputs, inputs=inputs: group.all_to_all(o[group.rank], inputs[group.rank]))
            for rank, each in enumerate(into):
                np.testing.assert_array_equal(each, [other[rank] for other in kept])
            for each, before in zip(given, kept, strict=True):
                np.testing.assert_array_equal(each, before)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_to_all_of_uneven_parts(size: int) -> None:
    """Rank r sends rank s r + 2 s rows, and some send nothing."""
    rows = [[(r + 2 * s) * 70 if (r, s) != (0, 1) else 0 for s in range(size)] for r in range(size)]
    inputs = [drawn(r, (sum(rows[r]), 3)) for r in range(size)]
    outputs = [np.zeros((sum(row[s] for row in rows), 3), np.int32) for s in range(size)]
    with world(size) as ranks:
        ranks.all(
            lambda group: group.all_to_all(
                outputs[group.rank],
                inputs[group.rank],
                [row[group.rank] for row in rows],
                rows[group.rank],
            )
        )
    for s, output in enumerate(outputs):
        parts = [np.split(inputs[r], np.cumsum(rows[r])[:-1])[s] for r in range(size)]
        np.testing.assert_array_equal(output, np.concatenate(parts))


@pytest.mark.parametrize("size", SIZES)
def test_from_one_to_all_and_from_all_to_one(size: int) -> None:
    with world(size) as ranks:
        for count in FEWER if size > 8 else COUNTS:
            for root in {0, size - 1, size // 2}:
                given = drawn(count, (size, count))
                arrays = list(given.copy())
                ranks.all(lambda group, a=arrays, root=root: group.reduce(a[group.rank], root))
                for rank, array in enumerate(arrays):
                    np.testing.assert_array_equal(array, given.sum(axis=0) if rank == root else given[rank])

                arrays = list(given.copy())
                ranks.all(lambda group, a=arrays, root=root: group.broadcast(a[group.rank], root))
                for array in arrays:
                    np.testing.assert_array_equal(array, given[root])

                check_gather_and_scatter(ranks, given, root)


def check_gather_and_scatter(ranks: World, given: NDArray[Any], root: int) -> None:
    arrays, into = list(given.copy()), np.zeros_like(given)

    def gather(group: Group) -> Work:
        return group.gather(arrays[group.rank], into if group.rank == root else None, root)

    ranks.all(gather)
    np.testing.assert_array_equal(into, given)
    outs = list(np.zeros_like(given))

    def scatter(group: Group) -> Work:
        return group.scatter(outs[group.rank], list(given) if group.rank == root else None, root)

    ranks.all(scatter)
    np.testing.assert_array_equal(outs, given)


@pytest.mark.parametrize("op", [ReduceOp.PROD, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.MEAN])
def test_reductions_of_every_kind(op: ReduceOp) -> None:
    """The other ways to reduce than a sum's, in each operation that reduces: five ranks' float64."""
    size = 5
    with world(size) as ranks:
        for count in (11, 600, 3000):
            given = drawn(count, (size, size, count), "float64")
            total = given.sum(axis=0) / size if op is ReduceOp.MEAN else fold(KERNELS[op], given)
            arrays = list(given.reshape(size, -1).copy())
            ranks.all(lambda group, a=arrays: group.all_reduce(a[group.rank], op))
            outs = [np.zeros(count) for _ in range(size)]
            ranks.all(lambda group, o=outs, given=given: group.reduce_scatter(o[group.rank], given[group.rank], op))
            ones = list(given.reshape(size, -1).copy())
            ranks.all(lambda group, a=ones: group.reduce(a[group.rank], 3, op))
            for array in (*arrays, ones[3]):
                np.testing.assert_allclose(array, total.reshape(-1), rtol=1e-14)
            np.testing.assert_allclose(outs, total, rtol=1e-14)


def test_in_place() -> None:
    """What all-gather takes may be the part where it goes, and what reduce-scatter leaves may be the part it was in."""
    size, count = 4, 1500
    with world(size) as ranks:
        given = drawn(1, (size, size, count))
        arrays = given.copy()
        ranks.all(lambda group: group.reduce_scatter(arrays[group.rank][group.rank], arrays[group.rank]))
        for rank in range(size):
            np.testing.assert_array_equal(arrays[rank][rank], given[:, rank].sum(axis=0))
        ranks.all(lambda group: group.all_gather(arrays[group.rank], arrays[group.rank][group.rank]))
        for rank in range(size):
            np.testing.assert_array_equal(arrays[rank], given.sum(axis=0))


def test_buffers_and_arrays_of_others() -> None:
    """bytearrays, memoryviews, and what shares its memory by DLPack or __array_interface__."""

    class Interface:
        def __init__(self, array: NDArray[Any]) -> None:
            self.__array_interface__ = array.__array_interface__

    class Packed:
        def __init__(self, array: NDArray[Any]) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    with world(2) as ranks:
        for wrap in (Interface, Packed, memoryview):
            arrays = [np.arange(10, dtype=np.int32) for _ in range(2)]
            ranks.all(lambda group, w=wrap, a=arrays: group.all_reduce(w(a[group.rank])))
            for array in arrays:
                np.testing.assert_array_equal(array, 2 * np.arange(10))
        raw = [bytearray(b"\1" * 5000), bytearray(b"\2" * 5000)]
        ranks.all(lambda group: group.all_reduce(raw[group.rank]))
        assert raw == [bytearray(b"\3" * 5000)] * 2
