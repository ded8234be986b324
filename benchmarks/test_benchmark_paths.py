"""Path selection: the EVs of the next 128 packets."""

from __future__ import annotations

import numpy as np
import pytest
from endpoints import paths_of

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths import PathSet

PACKETS = 128


def path_set(planes: int, spines: int) -> PathSet:
    return PathSet(paths_of(0, planes, spines), PathConfig(), np.random.default_rng(1))


def often(select, *arguments):
    """64 selections: in some of them a new order is drawn, in others not."""
    for _ in range(64):
        chosen = select(*arguments)
    return chosen


@pytest.mark.parametrize(("planes", "spines"), [(1, 1), (2, 4), (2, 8), (4, 64)], ids=["1", "8", "16", "256"])
def test_64_times_128_packets_over_so_many_paths(benchmark, planes, spines):
    paths = path_set(planes, spines)
    assert len(benchmark(often, paths.select, PACKETS, 1000)) == PACKETS


def test_64_times_one_packet_over_8_paths(benchmark):
    paths = path_set(2, 4)
    assert len(benchmark(often, paths.select, 1, 1000)) == 1


def test_64_times_128_retransmissions_each_on_another_path(benchmark):
    paths = path_set(2, 4)
    before = np.arange(PACKETS) % 8
    chosen = benchmark(often, paths.select, PACKETS, 1000, before)
    assert not (chosen == before).any()
