# SPDX-License-Identifier: BSD-2-Clause
"""A large mapped file stays a small part of a process: what is ahead is paged in, what is behind is let go of."""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc.net.transfer.paging import AHEAD, BEHIND, STEP, Paging

SIZE = 5 * (AHEAD + BEHIND)


def resident(address: int) -> int:
    """Bytes of the mapping there that count as this process's memory, as the kernel tells."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            ours = int(span[1], 16) <= address < int(span[2], 16)
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def eventually(holds: Callable[[], bool]) -> bool:
    by = time.monotonic() + 60
    while not holds():
        if time.monotonic() > by:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def file(tmp_path: Path) -> int:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.truncate(descriptor, SIZE)
    return descriptor


def test_the_stretch_follows_the_work(file: int) -> None:
    mapping = mmap.mmap(file, SIZE)
    os.close(file)
    paging = Paging(mapping)
    try:
        for position in range(0, SIZE, STEP):
            mapping[position : position + 8] = position.to_bytes(8, "big")
            paging.follow(position)
            paging_in = min(position - position % STEP + AHEAD, SIZE)
            assert eventually(lambda: paging._populated >= paging_in)  # noqa: B023 used at once
            assert eventually(lambda: paging._dropped >= position - BEHIND - STEP)  # noqa: B023
        assert paging._populated == SIZE
    finally:
        paging.close()
    # What was let go of is still in the file.
    assert all(mapping[at : at + 8] == at.to_bytes(8, "big") for at in range(0, SIZE, STEP))
    mapping.close()


def test_memory_is_bounded_whatever_the_size(file: int) -> None:
    mapping = mmap.mmap(file, SIZE)
    os.close(file)
    paging = Paging(mapping)
    seen = []
    for position in range(0, SIZE, STEP):
        paging.follow(position)
        assert eventually(lambda: paging._dropped >= position - BEHIND - STEP)  # noqa: B023 used at once
        seen.append(resident(paging._address))
    paging.close()
    assert max(seen) <= AHEAD + BEHIND + 3 * STEP
    mapping.close()


def test_a_small_file_is_paged_in_at_once(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * mmap.PAGESIZE * 10)
    with open(tmp_path / "small", "r+b") as small, mmap.mmap(small.fileno(), 0) as mapping:
        paging = Paging(mapping)
        assert resident(paging._address) == mmap.PAGESIZE * 10
        paging.follow(mmap.PAGESIZE * 10)
        paging.close()
        paging.close()
