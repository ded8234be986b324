# SPDX-License-Identifier: BSD-2-Clause
"""Path selection: the EVs of the next packets, one after another."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from endpoints import paths_of

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet

PACKETS = 128


def path_set(planes: int, spines: int) -> PathSet:
    return PathSet(paths_of(0, planes, spines), PathConfig(), Random(1))


def often(paths: PathSet, avoid: int = -1) -> int:
    """As many packets as several orders have turns, each on another EV than `avoid`."""
    for _ in range(64 * PACKETS):
        chosen = paths.select(1000, avoid)
    return chosen


@pytest.mark.parametrize(("planes", "spines"), [(1, 1), (2, 4), (2, 8), (4, 64)], ids=["1", "8", "16", "256"])
def test_64_times_128_packets_over_so_many_paths(benchmark: Any, planes: int, spines: int) -> None:
    assert benchmark(often, path_set(planes, spines)) >= 0


def test_64_times_128_retransmissions_each_on_another_path(benchmark: Any) -> None:
    assert benchmark(often, path_set(2, 4), 3) != 3
