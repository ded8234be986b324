# SPDX-License-Identifier: BSD-2-Clause
"""Groups of a store that groups before have used, groups in groups, and groups that are never used."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from collectives_world import PATIENCE_S, SMALL, World, world

from mrc.collectives import Group, GroupConfig, GroupError, MemoryStore, RankLost, Store, TicketServer, TicketStore
from mrc.errors import CallerError, PeerError
from mrc.fabric import Clos
from mrc.net.device import open_device
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice


def summed(groups: list[Group], value: float) -> None:
    arrays = [np.full(700, value + group.rank) for group in groups]
    works = [group.all_reduce(array) for group, array in zip(groups, arrays, strict=True)]
    for work in works:
        work.wait(PATIENCE_S)
    size = len(groups)
    assert all((array == size * value + size * (size - 1) / 2).all() for array in arrays)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_one_memory_for_one_group_after_another(order: tuple[int, ...]) -> None:
    """Ranks come to the next one in any order, with what the last one left still there."""
    fabric, store = SimFabric(Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2), seed=1), MemoryStore()
    for turn in range(4):
        made = {rank: Group(SimDevice(fabric, f"h{rank}"), store, rank, 3, SMALL) for rank in order}
        groups = [made[rank] for rank in range(3)]
        summed(groups, 10.0 * turn)
        for rank in order if turn % 2 else reversed(order):
            made[rank].close()


def test_a_rank_may_come_to_the_next_group_before_the_others_have_left_the_last() -> None:
    fabric, store = SimFabric(Clos(planes=2), seed=1), MemoryStore()
    last = [Group(SimDevice(fabric, f"h{rank}"), store, rank, 2, SMALL) for rank in range(2)]
    summed(last, 1.0)
    last[1].close()
    ahead = Group(SimDevice(fabric, "h1"), store, 1, 2, SMALL)
    work = ahead.all_reduce(array := np.ones(5))
    fabric.run(fabric.now + 10**9)
    assert not work.done
    last[0].close()
    other = Group(SimDevice(fabric, "h0"), store, 0, 2, SMALL)
    other.all_reduce(np.ones(5)).wait(PATIENCE_S)
    work.wait(PATIENCE_S)
    assert (array == 2.0).all()


def test_settings_of_the_group_before_are_not_held_against_the_next() -> None:
    """But those of a rank that has come are."""
    fabric, store = SimFabric(Clos(planes=2), seed=1), MemoryStore()
    for window in (4, 8, 2):
        config = GroupConfig(window=window)
        groups = [Group(SimDevice(fabric, f"h{rank}"), store, rank, 2, config) for rank in range(2)]
        summed(groups, 1.0)
        for group in groups:
            group.close()
    first = Group(SimDevice(fabric, "h0"), store, 0, 2, GroupConfig(window=8))
    with pytest.raises(CallerError, match="rank 0 has other settings than this rank: window"):
        Group(SimDevice(fabric, "h1"), store, 1, 2, GroupConfig(window=4))
    with pytest.raises(GroupError, match="rank 1 has other settings than this rank: window"):
        first.barrier().wait(PATIENCE_S)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("kind", ["ticket"])
def test_one_store_for_one_group_after_another_of_processes(kind: str) -> None:
    """Two devices, each with a control of its own, in threads; whoever is first has read what the last group left."""
    with TicketServer(["127.0.0.1"]) as server:
        failures: list[BaseException] = []
        sums: list[list[float]] = [[], []]

        def rank_of(rank: int) -> Callable[[], None]:
            def run() -> None:
                try:
                    with open_device(addresses=["127.0.0.1"]) as device, TicketStore(server.ticket) as store:
                        for turn in range(6):
                            time.sleep(0.1 * ((rank + turn) % 2))
                            with Group(device, store, rank, 2, GroupConfig(join_timeout_s=60)) as group:
                                array = np.array([float(10 * turn + rank)])
                                group.all_reduce(array).wait(PATIENCE_S)
                                sums[rank].append(array[0])
                except BaseException as error:
                    failures.append(error)

            return run

        threads = [threading.Thread(target=rank_of(rank)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sums == [[20.0 * turn + 1 for turn in range(6)]] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_a_dead_process_left_is_no_rank() -> None:
    """A rank that never comes is missed, although the store has what it left before; it may still come."""
    with TicketServer(["127.0.0.1"]) as server, open_device(addresses=["127.0.0.1"]) as device:
        stores = [TicketStore(server.ticket) for _ in range(2)]

        def pair(*devices: Any) -> list[Group]:
            made: list[Group] = []
            config = GroupConfig(join_timeout_s=60)
            other = threading.Thread(target=lambda: made.append(Group(devices[1], stores[1], 1, 2, config)))
            other.start()
            first = Group(devices[0], stores[0], 0, 2, config)
            other.join()
            return [first, *made]

        with open_device(addresses=["127.0.0.1"]) as there:
            for group in pair(device, there):
                # Whoever closes first need not wait for the other.
                threading.Thread(target=group.close).start()
            time.sleep(1)
        with pytest.raises(PeerError, match=r"rank 1 of 2 has not come within 1\.5 s"):
            Group(device, stores[0], 0, 2, GroupConfig(join_timeout_s=1.5))
        with open_device(addresses=["127.0.0.1"]) as there:
            groups = pair(device, there)
            works = [group.all_reduce(np.ones(3)) for group in groups]
            for work in works:
                work.wait(PATIENCE_S)
            closing = [threading.Thread(target=group.close) for group in groups]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join()
        for store in stores:
            store.close()


# ---------------------------------------------------------------------- groups in groups


def test_groups_in_groups_in_groups() -> None:
    """Of the ranks of a subgroup, numbered as there; made by one rank long before the others."""
    with world(6) as ranks:
        outer = [group.subgroup([5, 3, 1, 0]) for group in ranks.groups]
        members = [outer[rank] for rank in (5, 3, 1, 0)]
        first = members[2].subgroup([2, 1, 3])  # ranks 1, 3 and 0 of all
        assert first is not None
        early = first.all_reduce(np.ones(3))
        ranks.fabric.run(ranks.fabric.now + 10**8)
        assert not early.done
        inner = {2: first} | {place: members[place].subgroup([2, 1, 3]) for place in (1, 3)}
        assert members[0].subgroup([2, 1, 3]) is None
        in_order = [inner[place] for place in (2, 1, 3)]
        assert [group.rank for group in in_order if group is not None] == [0, 1, 2]
        works = [group.all_reduce(np.ones(3)) for group in in_order[1:] if group is not None]
        for work in (early, *works):
            work.wait(PATIENCE_S)
        summed([group for group in in_order if group is not None], 2.0)
        summed([each for each in members if each is not None], 3.0)
        summed(ranks.groups, 4.0)


def test_subgroups_of_the_same_ranks_are_told_apart() -> None:
    """Made one after another, used in another order, closed by one rank before the other has made the next."""
    with world(2) as ranks:
        one, two = ranks.groups
        kept = [one.subgroup([0, 1]) for _ in range(3)]
        others = [two.subgroup([0, 1]) for _ in range(3)]
        for place in (2, 0, 1):
            summed([kept[place], others[place]], float(place))  # type: ignore[list-item]
        for number in range(50):
            pair = [one.subgroup([0, 1]), two.subgroup([0, 1])]
            if number % 3:
                summed(pair, float(number))  # type: ignore[arg-type]
            for group in pair if number % 2 else reversed(pair):
                assert group is not None
                group.close()
        assert len(one._subgroups) <= 4
        assert not ranks.store.board.of("0")._early
        assert len(ranks.store.board.of("0")._groups) == 4


def test_a_subgroup_that_one_rank_closes_early() -> None:
    """Before the other has made it: what the other calls there says so."""
    with world(2) as ranks:
        made = ranks.groups[0].subgroup([0, 1])
        assert made is not None
        made.close()
        late = ranks.groups[1].subgroup([0, 1])
        assert late is not None
        with pytest.raises(RankLost, match="rank 0 has closed its group"):
            late.all_reduce(np.ones(3)).wait(PATIENCE_S)
        summed(ranks.groups, 1.0)


def test_a_group_that_fails_leaves_those_around_it_alone() -> None:
    with world(3) as ranks:
        pairs = [group.subgroup([0, 1]) for group in ranks.groups[:2]]
        assert pairs[0] is not None
        assert pairs[1] is not None
        work = pairs[1].all_reduce(np.ones(40_000))
        pairs[0].abort("enough")
        with pytest.raises(GroupError, match="rank 0 has given up: enough"):
            work.wait(PATIENCE_S)
        summed(ranks.groups, 5.0)


def test_a_rank_that_dies_is_named_in_every_group_it_is_in_and_in_no_other() -> None:
    ranks = World(4)
    within = [group.subgroup([3, 1]) for group in ranks.groups]
    beside = [group.subgroup([0, 1, 2]) for group in ranks.groups]
    ranks.store.board.lose(3, "its process has ended")
    with pytest.raises(RankLost, match="rank 0 is gone"):
        within[1].all_reduce(np.ones(3)).wait(PATIENCE_S)  # type: ignore[union-attr]
    with pytest.raises(RankLost, match="rank 3 is gone"):
        ranks.groups[0].all_reduce(np.ones(3)).wait(PATIENCE_S)
    summed([group for group in beside[:3] if group is not None], 1.0)
    for group in ranks.groups[:3]:
        group.close()


def test_groups_that_move_nothing_have_nothing_of_the_device() -> None:
    """No QP, no region, no context; a pair that exchanges something has one QP at each end."""
    with world(4) as ranks:
        subgroups = [[group.subgroup([0, 1, 2, 3]) for _ in range(30)] for group in ranks.groups]
        assert not any(endpoint.qps for endpoint in ranks.fabric.endpoints.values())
        works = [ranks.groups[1].send(np.ones(3), 2), ranks.groups[2].recv(np.zeros(3), 1)]
        for work in works:
            work.wait(PATIENCE_S)
        counts = {name: len(list(endpoint.qps)) for name, endpoint in ranks.fabric.endpoints.items()}
        assert sorted(counts.values()) == [0, 0, 1, 1]
        assert all(len(each) == 30 for each in subgroups)


def test_stores_without_a_word_of_their_own_are_stores() -> None:
    """An object with `set` and `get` is one."""

    class Plain:
        def __init__(self) -> None:
            self.values: dict[str, bytes] = {}

        def set(self, key: str, value: bytes) -> None:
            self.values[key] = value

        def get(self, key: str, timeout: float) -> bytes:
            deadline = time.monotonic() + timeout
            while key not in self.values:
                if time.monotonic() >= deadline:
                    raise TimeoutError
                time.sleep(0.001)
            return self.values[key]

    store: Store = Plain()
    fabric = SimFabric(Clos(), seed=1)
    with Group(SimDevice(fabric, "h0"), store, 0, 1) as alone:
        alone.all_reduce(array := np.ones(3)).wait(PATIENCE_S)
        assert (array == 1.0).all()
    assert not store.values
