"""Placement: the payloads of a received batch into the region they were written to."""

from __future__ import annotations

import numpy as np
import pytest

from mrc.endpoint.memory import MemoryRegion, place

ROWS = 128
START = 128
REGION = 4 << 20


@pytest.mark.parametrize("size", [4096, 1024, 64])
@pytest.mark.parametrize("order", ["in_order", "shuffled"])
def test_128_payloads(benchmark, size, order):
    data = np.random.default_rng(1).integers(0, 255, (ROWS, START + size), np.uint8)
    region = MemoryRegion(bytearray(REGION), 1)
    offsets = np.arange(ROWS, dtype=np.int64) * size
    if order == "shuffled":
        np.random.default_rng(2).shuffle(offsets)
    lengths, rows = np.full(ROWS, size, np.int64), np.arange(ROWS)
    benchmark(place, region, offsets, lengths, data, rows, START)
    last = int(offsets[-1])
    assert bytes(region.view[last : last + size]) == data[-1, START:].tobytes()


def test_128_payloads_of_two_lengths(benchmark):
    """What no single indexed copy can do."""
    data = np.zeros((ROWS, START + 4096), np.uint8)
    region = MemoryRegion(bytearray(REGION), 1)
    lengths = np.where(np.arange(ROWS) % 2, 4096, 1000)
    benchmark(place, region, np.arange(ROWS, dtype=np.int64) * 4096, lengths, data, np.arange(ROWS), START)
