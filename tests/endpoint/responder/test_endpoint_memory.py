# SPDX-License-Identifier: BSD-2-Clause
"""Memory regions and the placement of payload (behaviour.md, Responder: "written at RETH.VA")."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from mrc.endpoint.memory import NEW_REGIONS, VA_LIMIT, MemoryRegion, MemoryTable
from mrc.errors import CallerError


def test_any_writable_buffer_makes_a_region() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        for buffer in (bytearray(8), np.zeros(8, np.uint8), np.zeros(2, np.uint32), memoryview(bytearray(8))):
            region = MemoryRegion(buffer, 1, 0)
            assert region.length == 8
            region.view[3] = 7
            assert bytes(memoryview(buffer).cast("B"))[3] == 7
        region = MemoryRegion(mapped, 1)
        assert region.length == 4096
        del region
    assert MemoryRegion(bytearray(), 1, 0).length == 0


def test_a_read_only_buffer_is_only_read_from() -> None:
    with pytest.raises(CallerError, match="writable"):
        MemoryRegion(b"constant", 1, 0)
    assert bytes(MemoryRegion(b"constant", 1, 0, remote_write=False).view) == b"constant"


@pytest.mark.parametrize(("va", "rkey"), [(-1, 0), (VA_LIMIT, 0), (VA_LIMIT - 8, 0), (0, -1), (0, 1 << 32)])
def test_addresses_and_keys_out_of_range_are_refused(va: int, rkey: int) -> None:
    with pytest.raises(CallerError):
        MemoryRegion(bytearray(8), rkey, va)


def test_a_buffer_with_gaps_is_refused() -> None:
    with pytest.raises(CallerError, match="contiguous"):
        MemoryRegion(np.zeros(16, np.uint8)[::2], 1, 0)


def test_a_table_finds_what_is_registered_and_nothing_else() -> None:
    table = MemoryTable(iter([0, 5, 5, *range(5, 40)]).__next__)
    regions = [table.register(bytearray(4)) for _ in range(20)]
    assert len({region.rkey for region in regions}) == 20
    assert list(table) == regions
    for region in regions:
        assert table.find(region.rkey) is region
    table.deregister(regions[0])
    assert table.find(regions[0].rkey) is None
    with pytest.raises(CallerError):
        table.deregister(regions[0])
    with pytest.raises(CallerError):
        table.deregister(MemoryRegion(bytearray(4), regions[1].rkey, 0))
    assert table.find(regions[1].rkey) is regions[1]


def test_a_region_is_open_at_once_whether_it_was_taken_in_or_not() -> None:
    table = MemoryTable(iter(range(1, 1000)).__next__)
    regions = [table.register(bytearray(4), va=100 * number) for number in range(5)]
    assert (table.open.count, table.is_full()) == (0, False)
    # Looked for, they are taken in, all of them; what nobody gave out stays unknown.
    assert table.row(regions[3].rkey) >= 0
    assert table.open.count == 5
    assert table.row(999) == -1
    rows = {row[0]: row[1:] for row in table.open.rows()}
    assert rows == {region.rkey: (region.va, region.length, region.address) for region in regions}
    table.deregister(regions[3])
    assert table.row(regions[3].rkey) == -1
    assert table.open.count == 4


def test_one_that_was_never_looked_for_is_closed_like_any_other() -> None:
    table = MemoryTable(iter(range(1, 1000)).__next__)
    first, second = table.register(bytearray(4)), table.register(bytearray(4))
    table.deregister(first)
    assert (table.row(first.rkey), table.open.count) == (-1, 1)
    assert table.row(second.rkey) >= 0


def test_who_has_the_endpoint_may_register_more_than_wait_at_once() -> None:
    table = MemoryTable(iter(range(1, 10_000)).__next__)
    count = 3 * NEW_REGIONS + 7
    regions = []
    for number in range(count):
        assert table.is_full() == (number > 0 and number % NEW_REGIONS == 0)
        regions.append(table.register(bytearray(4)))
    assert all(table.row(region.rkey) >= 0 for region in regions)
    assert table.open.count == count


def test_a_region_that_is_only_read_from_is_open_to_no_peer() -> None:
    table = MemoryTable(iter(range(1, 10)).__next__)
    region = table.register(bytes(4), remote_write=False)
    assert table.row(region.rkey) == -1
    table.deregister(region)
    assert list(table) == []


def test_a_region_that_nothing_lies_behind_begins_at_va_0() -> None:
    """It has any length a region can have, and is open to peers at once."""
    table = MemoryTable(iter(range(7, 20)).__next__)
    empty, longest = table.register_without_memory(0), table.register_without_memory(VA_LIMIT - 1)
    assert list(table) == [empty, longest]
    assert table.find(8) is longest
    assert {row[0]: row[1:] for row in table.open.rows()} == {7: (0, 0, 0), 8: (0, VA_LIMIT - 1, 0)}
    assert [(region.rkey, region.va, region.length) for region in table] == [(7, 0, 0), (8, 0, VA_LIMIT - 1)]
    table.deregister(longest)
    assert (table.row(8), table.row(7) >= 0) == (-1, True)
    assert MemoryRegion.without_memory(5).rkey == 0


@pytest.mark.parametrize("length", [-1, VA_LIMIT])
def test_a_length_that_no_region_can_have_is_refused(length: int) -> None:
    with pytest.raises(CallerError, match=f"got {length}"):
        MemoryRegion.without_memory(length)


def test_a_region_shows_its_bytes_whatever_the_buffer_holds() -> None:
    view = MemoryRegion(memoryview(bytearray(b"\xff" * 8)).cast("i"), 1, 0).view
    assert list(view) == [255] * 8
