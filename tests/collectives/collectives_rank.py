# SPDX-License-Identifier: BSD-2-Clause
"""A rank of a live test: `python -m collectives_rank STORE RANK SIZE WHAT`. It prints lines of JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import cryptography.x509.oid
import numpy as np

import mrc.net.control.connection
from mrc.collectives import FileStore, Group, GroupError, ReduceOp, Store, TicketServer, TicketStore
from mrc.fabric import Fabric
from mrc.net.device import NodeDevice, open_device

# What a device and a group load when they are first used: each rank would load it for itself.
assert cryptography.x509.oid
assert mrc.net.control.connection
PATIENCE_S = 240.0
HELD_S = 8.0


def tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def compare(group: Group, counts: tuple[int, ...]) -> None:
    """Operations of every kind against numpy."""
    size, rank = group.size, group.rank
    for count in counts:
        given = [np.random.default_rng(each).integers(0, 100, (size, count), np.int32) for each in range(size)]
        mine = given[rank].copy()
        group.all_reduce(mine).wait(PATIENCE_S)
        np.testing.assert_array_equal(mine, sum(given))
        part, whole, parts = np.zeros(count, np.int32), given[rank].copy(), np.zeros((size, count), np.int32)
        # One after another, without waiting in between.
        works = [
            group.reduce_scatter(part, given[rank], ReduceOp.MAX),
            group.broadcast(whole, size - 1),
            group.all_gather(parts, given[rank][0]),
            group.barrier(),
        ]
        for work in works:
            work.wait(PATIENCE_S)
        np.testing.assert_array_equal(part, np.max([each[rank] for each in given], axis=0))
        np.testing.assert_array_equal(whole, given[size - 1])
        np.testing.assert_array_equal(parts, [each[0] for each in given])
        if size == 1:
            continue
        right, left = (rank + 1) % size, (rank - 1) % size
        works = [group.send(given[rank][0], right), group.recv(part, left)]
        for work in works:
            work.wait(PATIENCE_S)
        np.testing.assert_array_equal(part, given[left][0])


def results(group: Group) -> None:
    compare(group, (1, 1000, 70_001))
    # The more ranks there are, the more of it all of them send.
    large = np.full((64 << 20 if group.size == 2 else 16 << 20) // 4, group.rank + 1, np.float32)
    group.all_reduce(large).wait(PATIENCE_S)
    assert (large == sum(range(1, group.size + 1))).all()
    half = group.subgroup(range(group.size // 2))
    if half is not None:
        compare(half, (5000,))
    tell(ok=True)


def until_it_fails(group: Group) -> None:
    """Operations without end."""
    number = 0
    try:
        while True:
            array = np.ones((1, 2000, 500_000)[number % 3])
            works = [group.all_reduce(array), group.barrier(), group.broadcast(array, number % group.size)]
            for work in works:
                work.wait(PATIENCE_S)
            number += 1
            if number == 4:
                tell(going=True)
    except GroupError as error:
        tell(lost=error.rank, text=str(error))


def in_steps(group: Group) -> None:
    """Operations for as long as the test reads them: a line after each."""
    for number in range(24):
        array = np.full(100_000, float(group.rank))
        group.all_reduce(array).wait(PATIENCE_S)
        assert (array == sum(range(group.size))).all()
        if number == 5:
            tell(going=True)
        if number == 10 and group.rank == 1 and "held" in sys.argv:
            # A call that keeps the interpreter's lock: nothing of Python's runs here meanwhile.
            ctypes.PyDLL(None).usleep(int(HELD_S * 1e6))
        if number < 18:
            time.sleep(0.05)
    tell(ok=True)


def come_and_go(device: NodeDevice, store: str, rank: int, size: int) -> None:
    for number in range(12):
        with Group(device, FileStore(f"{store}/{number}"), rank, size) as group:
            array = np.ones(10 ** (number % 6))
            work = group.all_reduce(array)
            if number % 2:
                work.wait(PATIENCE_S)
        assert (array == size).all()
    tell(ok=True)


def main() -> None:
    where, rank, size, what = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with open_device(Fabric.load(os.environ["MRC_FABRIC"])) as device:
        if what == "groups":
            come_and_go(device, where, rank, size)
            return
        store: Store = FileStore(where)
        if what == "ticket":
            store = TicketServer() if rank == 0 else TicketStore(json.loads(sys.stdin.readline()))
            if isinstance(store, TicketServer):
                tell(ticket=store.ticket)
        with Group(device, store, rank, size) as group:
            {"results": results, "ticket": results, "killed": until_it_fails}.get(what, in_steps)(group)


if __name__ == "__main__":
    main()
