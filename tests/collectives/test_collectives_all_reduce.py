"""All-reduce in virtual time, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from collectives_world import world

from mrc.collectives import ReduceOp

# Recursive doubling, halving, a ring of whole pieces and one that does not come out even.
COUNTS = (0, 1, 2, 7, 128, 129, 1000, 1025, 5000, 20_011)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 16])
def test_integers_come_out_exactly(size: int) -> None:
    random = np.random.default_rng(size)
    with world(size) as ranks:
        for count in COUNTS:
            given = random.integers(-1000, 1000, (size, count)).astype(np.int32)
            arrays = [row.copy() for row in given]
            ranks.all(lambda group, arrays=arrays: group.all_reduce(arrays[group.rank], ReduceOp.SUM))
            for array in arrays:
                np.testing.assert_array_equal(array, given.sum(axis=0))
