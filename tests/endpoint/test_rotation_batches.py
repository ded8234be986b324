"""Packets get the same EVs whether asked for at once or one by one, wherever the rotation stands."""

from __future__ import annotations

import numpy as np
import pytest
from hand_peer import paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths import PathSet


@pytest.mark.parametrize("marked", range(4))
@pytest.mark.parametrize("before", [*range(506, 516), *range(1018, 1028)])
def test_marks_that_lie_beyond_the_next_few_packets_are_met_in_a_batch_too(before: int, marked: int) -> None:
    """Orders are reshuffled now and then (512 packets here); the mark may lie in the next one. MRC-PATH-08."""
    at_once, singly = (PathSet(paths(1, 4), PathConfig(), np.random.default_rng(3)) for _ in range(2))
    for chosen in (at_once, singly):
        chosen.select(before, 0)
        chosen.on_mark(marked, 1)
    assert at_once.select(7, 0).tolist() == [int(singly.select(1, 0)[0]) for _ in range(7)]
    assert at_once.state.tolist() == singly.state.tolist()
