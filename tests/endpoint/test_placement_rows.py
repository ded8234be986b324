"""Payload of equal length from rows here and there of a batch, at any phase of the region (behaviour.md, Responder)."""

from __future__ import annotations

import numpy as np
import pytest

from mrc.endpoint.memory import MemoryRegion, place


@pytest.mark.parametrize("rows", [[3], [0, 1], [0, 2], [1, 2, 3], [0, 2, 5], [0, 1, 5], [2, 4, 5, 6]])
@pytest.mark.parametrize("phase", [0, 5, 32, 63])
@pytest.mark.parametrize("length", [1, 63, 64, 65])
def test_each_row_lands_where_it_belongs(rows: list[int], phase: int, length: int) -> None:
    """By definition: one slice after the other. The blocks land in reverse, with a block left out after the first."""
    start = 84
    packets = np.arange(7 * (start + length), dtype=np.int64).astype(np.uint8).reshape(7, start + length)
    packets += np.arange(7, dtype=np.uint8)[:, None] * 31
    places = list(range(len(rows) + 1))[::-1]
    places.pop(1)
    offsets = [phase + length * place_of for place_of in places]
    memory = bytearray(phase + length * (len(rows) + 2))
    expected = bytearray(memory)
    for row, offset in zip(rows, offsets, strict=True):
        expected[offset : offset + length] = packets[row, start:].tobytes()
    region = MemoryRegion(memory, 1, 0)
    place(region, np.array(offsets), np.full(len(rows), length), packets, np.array(rows), start)
    assert memory == expected


def test_a_first_packet_of_nothing_beside_others() -> None:
    memory = bytearray(4)
    packets = np.arange(20, dtype=np.uint8).reshape(2, 10)
    place(MemoryRegion(memory, 1, 0), np.array([1, 1]), np.array([0, 2]), packets, np.array([0, 1]), 4)
    assert memory == bytes((0, 14, 15, 0))
