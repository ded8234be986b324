# SPDX-License-Identifier: BSD-2-Clause
"""Groups that no longer reduce hold no scratch memory, and go on with what they had."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from collectives_world import PATIENCE_S, world

from mrc.collectives import Group, GroupConfig
from mrc.collectives.arrays import Bytes
from mrc.collectives.scratches import KEPT, Scratches, let_go

CONFIG = GroupConfig(chunk_bytes=64 * 1024, window=8)


def pages(memory: Bytes) -> int:
    """How many of its pages are in memory (proc(5), pagemap)."""
    first, last = memory.ctypes.data // mmap.PAGESIZE, (memory.ctypes.data + memory.nbytes) // mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(8 * first)
        entries = np.frombuffer(file.read(8 * (last - first)), np.uint64)
    return int((entries >> np.uint64(63)).sum())


def test_what_is_let_go_is_gone_and_there_again() -> None:
    memory = np.zeros(1 << 20, np.uint8)
    memory[:] = 7
    assert pages(memory) > 200
    let_go(memory)
    assert pages(memory) <= 2
    memory[:] = 9
    assert (memory == 9).all()
    let_go(memory[5:10])
    assert (memory == 9).all()


def test_the_last_users_keep_theirs() -> None:
    class User:
        def __init__(self) -> None:
            self.asked = 0

        def let_scratch_go(self) -> None:
            self.asked += 1

    scratches, users = Scratches(2), [User() for _ in range(4)]
    for place in (0, 1, 0, 2, 0, 3, 3):
        scratches.used(users[place])
    assert [each.asked for each in users] == [0, 1, 1, 0]
    del users[0]
    scratches.used(users[0])


@pytest.mark.parametrize("size", [2, 3])
def test_many_groups_that_reduce_hold_the_scratch_memory_of_few(size: int) -> None:
    with world(size, config=CONFIG) as ranks:
        sets = [[group.subgroup(range(size)) for group in ranks.groups] for _ in range(KEPT * 4 // size)]
        for turn in range(2):
            for number, subgroups in enumerate(sets):
                arrays = [np.full(100_000, float(turn + number + rank)) for rank in range(size)]
                pairs = [(each, array) for each, array in zip(subgroups, arrays, strict=True) if each is not None]
                works = [group.all_reduce(array) for group, array in pairs]
                for work in works:
                    work.wait(PATIENCE_S)
                assert all((array == size * (turn + number) + size * (size - 1) / 2).all() for array in arrays)
        ranks.fabric.run(ranks.fabric.now + 10**6)
        held = [pages(scratch_of(group)) for each in sets for group in each if group is not None]
        whole = CONFIG.window * CONFIG.chunk_bytes // mmap.PAGESIZE
        assert len(held) > 2 * KEPT
        assert sum(count > whole // 8 for count in held) <= KEPT


def scratch_of(group: Group) -> Bytes:
    view: Bytes = group._engine.resources.scratch.view
    return view
