"""Memory regions and the placement of payload (behaviour.md, Responder: "written at RETH.VA")."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.memory import VA_LIMIT, MemoryRegion, MemoryTable, place
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


@given(st.integers(0, 100), st.integers(0, 100), st.integers(-300, 300), st.integers(0, 300))
def test_a_range_is_inside_when_all_of_its_bytes_are(va: int, length: int, start: int, size: int) -> None:
    region = MemoryRegion(bytearray(length), 1, va)
    inside = bool(region.contains(np.array([va + start]), np.array([size]))[0])
    assert inside == (start >= 0 and start + size <= length)


def test_ranges_at_the_ends_of_the_address_space() -> None:
    region = MemoryRegion(bytearray(8), 1, 0)
    addresses = np.array([VA_LIMIT - 1, 0, 8, 1 << 61])
    assert region.contains(addresses, np.array([4096, 8, 0, 1])).tolist() == [False, True, True, False]


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


@given(st.data())
def test_placing_is_copying_one_packet_after_the_other(data: st.DataObject) -> None:
    """Against the naive copy, for runs of equal blocks, at any phase, in any order, and for anything else."""
    size = data.draw(st.integers(1, 2000), label="region")
    count = data.draw(st.integers(0, 8), label="packets")
    block = data.draw(st.sampled_from([1, 63, 64, 65, 256]), label="block")
    start = data.draw(st.integers(0, 20), label="start")
    room = start + 256
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows_in_all = count + 3
    packets = chance.integers(0, 256, (rows_in_all, room), np.uint8)
    offsets, lengths = [], []
    for _ in range(count):
        if data.draw(st.booleans(), label="aligned") and size >= block:
            length = block
            offset = data.draw(st.integers(0, (size - block) // block)) * block
            offset = min(offset + data.draw(st.sampled_from([0, 0, 0, 5])), size - block)
        else:
            length = data.draw(st.integers(0, min(256, size)))
            offset = data.draw(st.integers(0, size - length))
        offsets.append(offset)
        lengths.append(length)
    # In order of arrival, some of a batch left out.
    rows = sorted(data.draw(st.permutations(range(rows_in_all)))[:count])
    if data.draw(st.booleans(), label="consecutive rows"):
        rows = list(range(1, 1 + count))
    before = chance.integers(0, 256, size, np.uint8)
    expected = bytearray(before.tobytes())
    for row, offset, length in zip(rows, offsets, lengths, strict=True):
        expected[offset : offset + length] = packets[row, start : start + length].tobytes()
    actual = bytearray(before.tobytes())
    place(
        MemoryRegion(actual, 1, 0),
        np.array(offsets, np.int64),
        np.array(lengths, np.int64),
        packets,
        np.array(rows, np.int64),
        start,
    )
    assert actual == expected


@given(st.integers(1, 6), st.integers(0, 300), st.booleans(), st.integers(0, 1 << 20))
def test_whole_runs_of_blocks(blocks: int, phase: int, reverse: bool, seed: int) -> None:
    """The common case by itself: equal lengths of a path MTU, offsets a path MTU apart, at any phase of the region."""
    mtu = 256
    chance = np.random.default_rng(seed)
    packets = chance.integers(0, 256, (blocks, mtu + 84), np.uint8)
    offsets = phase + mtu * np.arange(blocks, dtype=np.int64)
    if reverse:
        offsets = offsets[::-1].copy()
    memory = bytearray(phase + mtu * blocks + 3)
    place(MemoryRegion(memory, 1, 0), offsets, np.full(blocks, mtu), packets, np.arange(blocks), 84)
    order = range(blocks)[::-1] if reverse else range(blocks)
    assert memory == bytes(phase) + b"".join(packets[row, 84:].tobytes() for row in order) + bytes(3)
