# SPDX-License-Identifier: BSD-2-Clause
"""How operations and groups end: well, too late, or because of another rank."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable

import numpy as np
import pytest
from collectives_world import PATIENCE_S, SMALL, World, world

from mrc.collectives import (
    CallMismatch,
    Group,
    GroupConfig,
    GroupError,
    MemoryStore,
    OperationTimeout,
    RankLost,
    ReduceOp,
)
from mrc.collectives.work import Work
from mrc.errors import CallerError, PeerError
from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice


def called(call: str, group: Group, count: int) -> Work:
    """One of all operations, with arrays of its own; the root is rank 1, or 2 where it is the one that sends."""
    array, all_of = np.ones(count), np.zeros((group.size, count))
    calls: dict[str, Callable[[], Work]] = {
        "all_reduce": lambda: group.all_reduce(array),
        "reduce_scatter": lambda: group.reduce_scatter(array, all_of),
        "all_gather": lambda: group.all_gather(all_of, array),
        "all_to_all": lambda: group.all_to_all(all_of, all_of.copy()),
        "broadcast": lambda: group.broadcast(array, 2),
        "reduce": lambda: group.reduce(array, 1),
        "gather": lambda: group.gather(array, all_of if group.rank == 1 else None, 1),
        "scatter": lambda: group.scatter(array, all_of if group.rank == 2 else None, 2),
        "barrier": group.barrier,
    }
    return calls[call]()


CALLS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)


@pytest.mark.parametrize("count", [9, 30_000])
@pytest.mark.parametrize("call", CALLS)
def test_a_rank_that_is_gone_is_named(call: str, count: int) -> None:
    """Rank 2 dies before it calls or after: what waits for it fails, and all that is called later."""
    for begun in (False, True):
        ranks = World(3)
        alive, dead = ranks.groups[:2], ranks.groups[2]
        works = [called(call, group, count) for group in alive]
        if begun:
            called(call, dead, count)
            ranks.fabric.run(ranks.fabric.now + 3_000)
        ranks.fabric.cut("p0l0", "p1l0", "p0l1", "p1l1")
        ranks.store.board.lose(2, "its process has ended")
        for work in works:
            with contextlib.suppress(RankLost):
                work.wait(1)
        failures = [error for work in works if (error := work.exception()) is not None]
        assert failures or begun or call in ("broadcast", "scatter")
        for error in failures:
            assert isinstance(error, RankLost)
            assert error.rank == 2
            assert f"rank 2 is gone: its process has ended (in {call}" in str(error)
        for group in alive:
            with pytest.raises(RankLost, match=r"rank 2 is gone.*\(in all_reduce"):
                group.all_reduce(np.ones(count)).wait(1)
            group.close()


def test_arrays_are_left_alone_once_a_group_has_failed() -> None:
    """Nothing of a peer's is written into an array after its operation has failed."""
    with world(2) as ranks:
        arrays = [np.ones(100_000) for _ in range(2)]
        works = [group.all_reduce(arrays[group.rank]) for group in ranks.groups]
        ranks.fabric.run(ranks.fabric.now + 20_000)
        assert not any(work.done for work in works)
        ranks.store.board.lose(1, "its process has ended")
        with pytest.raises(RankLost):
            works[0].wait(1)
        left = arrays[0].copy()
        ranks.fabric.run(ranks.fabric.now + 10**9)
        np.testing.assert_array_equal(arrays[0], left)


@pytest.mark.parametrize("count", [9, 30_000])
def test_calls_that_differ_name_each_other(count: int) -> None:
    cases = [
        (lambda group: group.all_reduce(np.ones(count)), lambda group: group.broadcast(np.ones(count))),
        (lambda group: group.all_reduce(np.ones(count)), lambda group: group.all_reduce(np.ones(count + 1))),
        (lambda group: group.all_reduce(np.ones(count)), lambda group: group.all_reduce(np.ones(count), ReduceOp.MAX)),
        (lambda group: group.all_reduce(np.ones(count)), lambda group: group.all_reduce(np.ones(count, np.int64))),
    ]
    for one, other in cases:
        ranks = World(2)
        works = [one(ranks.groups[0]), other(ranks.groups[1])]
        errors = []
        for work in works:
            try:
                work.wait(PATIENCE_S)
            except GroupError as error:
                errors.append(error)
        assert any(isinstance(error, CallMismatch) for error in errors)
        assert any("as operation 0, this rank called" in str(error) for error in errors)
        ranks.close()


def test_a_wait_says_who_is_waited_for() -> None:
    with world(2) as ranks:
        work = ranks.groups[0].all_reduce(np.ones(5000))
        with pytest.raises(
            OperationTimeout, match=r"all_reduce.*not done after 0.5 s: rank 1 has sent all but 1\d chunks"
        ):
            work.wait(0.5)
        assert not work.done
        assert "under way" in repr(work)
        ranks.groups[1].all_reduce(np.ones(5000)).wait(PATIENCE_S)
        work.wait(PATIENCE_S)
        assert work.exception() is None


def test_done_callbacks_and_await() -> None:
    with world(2) as ranks:
        seen: list[str] = []
        works = [group.all_reduce(np.ones(3)) for group in ranks.groups]
        works[0].add_done_callback(lambda work: seen.append(work.name))
        assert not seen
        for work in works:
            work.wait(PATIENCE_S)
        works[0].add_done_callback(lambda work: seen.append("at once"))
        assert seen == [works[0].name, "at once"]

        def fails(_: Work) -> None:
            raise ZeroDivisionError

        works = [group.all_reduce(np.ones(3)) for group in ranks.groups]
        works[0].add_done_callback(fails)
        for work in works:
            work.wait(PATIENCE_S)

        async def awaited() -> None:
            await works[0]
            await works[1]

        asyncio.run(awaited())


def test_operations_under_way_are_awaited() -> None:
    """No thread runs virtual time: the coroutines do."""
    with world(3) as ranks:
        arrays = [np.full(50_000, 1.0 + group.rank) for group in ranks.groups]

        async def one(group: Group) -> None:
            await group.all_reduce(arrays[group.rank])
            await group.barrier()

        async def together() -> None:
            await asyncio.gather(*(one(group) for group in ranks.groups))

        asyncio.run(together())
        np.testing.assert_array_equal(arrays, np.full((3, 50_000), 6.0))
        late = ranks.groups[0].barrier()

        async def failing() -> None:
            with pytest.raises(GroupError, match="rank 1 has given up: enough"):
                await late

        ranks.groups[1].abort("enough")
        asyncio.run(failing())


def test_a_rank_may_leave_before_the_others_are_done() -> None:
    """What it sent arrives, what it took part in ends, and an operation that wants it says that it has left."""
    with world(3) as ranks:
        arrays = [np.ones(20_000) for _ in range(3)]
        works = [group.all_reduce(arrays[group.rank]) for group in ranks.groups]
        ranks.groups[0].close()
        for work in works:
            work.wait(PATIENCE_S)
        np.testing.assert_array_equal(arrays, np.full((3, 20_000), 3.0))
        pair = [ranks.groups[1].send(np.ones(5), 2), ranks.groups[2].recv(np.zeros(5), 1)]
        for work in pair:
            work.wait(PATIENCE_S)
        with pytest.raises(RankLost, match=r"rank 0 has closed its group before this operation \(in barrier"):
            ranks.groups[1].barrier().wait(PATIENCE_S)


def test_what_was_sent_is_there_when_close_returns() -> None:
    """The root of a broadcast that closes at once: the others call it only later."""
    with world(3) as ranks:
        sent = np.arange(5.0)
        ranks.groups[0].broadcast(sent, 0)
        ranks.groups[0].close()
        ranks.fabric.run(ranks.fabric.now + 10**9)
        arrays = [np.zeros(5) for _ in range(2)]
        works = [group.broadcast(array, 0) for group, array in zip(ranks.groups[1:], arrays, strict=True)]
        for work in works:
            work.wait(PATIENCE_S)
        np.testing.assert_array_equal(arrays, [sent, sent])
        with pytest.raises(RankLost, match="rank 0 has closed its group"):
            ranks.groups[2].barrier().wait(PATIENCE_S)


def test_roots_that_differ_are_found_at_the_next_operation() -> None:
    """Each of two roots has nothing to wait for in a short broadcast."""
    with world(2) as ranks:
        for group in ranks.groups:
            group.broadcast(np.ones(3), group.rank)
        works = [group.barrier() for group in ranks.groups]
        with pytest.raises(GroupError, match=r"called broadcast.*root 1.* as operation 0|of which this rank took part"):
            works[0].wait(PATIENCE_S)


def test_roots_that_differ_in_a_long_operation_are_found_at_once() -> None:
    """Both only send, and wait for the other's grant."""
    for call in ("broadcast", "scatter"):
        with world(2) as ranks:
            works = []
            for group in ranks.groups:
                more = [np.ones(80_000)] if call == "scatter" else []
                works.append(getattr(group, call)(np.ones(40_000), *more, root=group.rank))
            for work in works:
                with pytest.raises(CallMismatch, match=rf"called {call}.*root .\) as operation 0"):
                    work.wait(PATIENCE_S)


@pytest.mark.parametrize("count", [9, 3000, 40_000])
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("call", ["reduce", "gather"])
def test_roots_that_only_receive_find_that_they_differ(call: str, size: int, count: int) -> None:
    """Each waits for the others, which have sent what they had to another root, and have gone on."""
    with world(size) as ranks:
        works = []
        for group in ranks.groups:
            root = 0 if group.rank == 0 else 1
            more = [np.zeros((size, count))] if call == "gather" and group.rank == root else []
            works.append(getattr(group, call)(np.ones(count), *more, root=root))
        for work in works[:2]:
            with pytest.raises(CallMismatch, match=rf"called {call}.*root .\) as operation 0"):
                work.wait(PATIENCE_S)


def test_a_rank_may_be_far_ahead_of_one_that_only_receives() -> None:
    """What that says of operations that have long ended here is no mismatch."""
    with world(3) as ranks:
        first, *others = ranks.groups
        sums = [np.ones(5) for _ in range(400)]
        ahead = [group.reduce(np.ones(5), 0) for _ in range(400) for group in others]
        for work in [first.reduce(each, 0) for each in sums] + ahead:
            work.wait(PATIENCE_S)
        assert all((each == 3.0).all() for each in sums)


def test_a_block_that_fails_tells_the_others() -> None:
    with world(2) as ranks:
        work = ranks.groups[1].barrier()
        with pytest.raises(ZeroDivisionError), ranks.groups[0]:
            _ = 1 / 0
        with pytest.raises(GroupError, match="rank 0 has given up: ZeroDivisionError") as caught:
            work.wait(PATIENCE_S)
        assert caught.value.rank == 0
        assert isinstance(caught.value, PeerError)


def test_groups_come_and_go() -> None:
    """Twenty starts and ends of four ranks on the same hosts, some with work under way when they close."""
    fabric = SimFabric(Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2), seed=4)
    for number in range(20):
        store = MemoryStore()
        groups = [Group(SimDevice(fabric, f"h{rank}"), store, rank, 4, SMALL) for rank in range(4)]
        arrays = [np.ones(number * 500 + 1) for _ in groups]
        works = [group.all_reduce(arrays[group.rank]) for group in groups]
        if number % 2:
            for work in works:
                work.wait(PATIENCE_S)
        for group in reversed(groups):
            group.close()
            group.close()
        assert all(work.done and work.exception() is None for work in works)
        assert all((array == 4).all() for array in arrays)
    assert not any(endpoint.qps for endpoint in fabric.endpoints.values())


def test_fresh_arrays_leave_nothing_behind() -> None:
    """No more registrations are kept than the settings say, and none of them keeps an array alive."""
    with world(2) as ranks:
        engine = ranks.groups[0]._engine
        for number in range(50):
            ranks.all(lambda group, n=number: group.all_reduce(np.ones(3000 + n)))
        gc.collect()
        assert len(engine.registrations) <= SMALL.registrations
        array = np.ones(4000)
        other = np.ones(4000)
        for _ in range(5):
            works = [ranks.groups[0].all_reduce(array), ranks.groups[1].all_reduce(other)]
            for work in works:
                work.wait(PATIENCE_S)
        assert engine.registrations.hits >= 4


def test_what_an_operation_refuses() -> None:
    with world(2) as ranks:
        group = ranks.groups[0]
        square = np.ones((4, 4))
        with pytest.raises(CallerError, match=r"array is not contiguous .*numpy.ascontiguousarray\(array\)"):
            group.all_reduce(square.T)
        with pytest.raises(CallerError, match="array is not contiguous"):
            group.all_reduce(square[:, 1])
        square.flags.writeable = False
        with pytest.raises(CallerError, match="array is read-only"):
            group.all_reduce(square)
        with pytest.raises(CallerError, match=r"array must be a numpy array, a buffer.*got list"):
            group.all_reduce([1, 2])
        with pytest.raises(CallerError, match="holds Python objects"):
            group.broadcast(np.array([object()]))
        with pytest.raises(CallerError, match="no reduction of complex128"):
            group.all_reduce(np.ones(2, complex))
        with pytest.raises(CallerError, match="output has 5 values, which is no multiple of the 2 ranks"):
            group.all_gather(np.ones(5), np.ones(2))
        with pytest.raises(CallerError, match="output has room for 2 values of each rank, input has 3"):
            group.all_gather(np.ones(4), np.ones(3))
        with pytest.raises(CallerError, match="input is of float64, output of float32"):
            group.reduce_scatter(np.ones(2, np.float32), np.ones(4))
        both = np.ones(4)
        with pytest.raises(CallerError, match="shares memory with rank 1's part"):
            group.reduce_scatter(both[1:3], both)
        with pytest.raises(CallerError, match="share memory"):
            group.all_to_all(both, both)
        with pytest.raises(CallerError, match="come to 3 rows, input has 4"):
            group.all_to_all(np.ones(4), np.ones(4), None, [1, 2])
        with pytest.raises(CallerError, match="root is"):
            group.broadcast(np.ones(1), 2)
        with pytest.raises(CallerError, match="the root of gather needs outputs"):
            group.gather(np.ones(1))
        with pytest.raises(CallerError, match="op must be one of"):
            group.all_reduce(np.ones(1), 9)


def test_what_a_group_refuses() -> None:
    fabric = SimFabric(Clos(), seed=1)
    device = SimDevice(fabric, "h0")
    for rank, size, why in ((2, 2, r"rank is 0\.\.1"), (0, 0, "size is"), (True, 2, "rank is")):
        with pytest.raises(CallerError, match=why):
            Group(device, MemoryStore(), rank, size)
    for wrong in ({"eager_bytes": 100}, {"window": 1}, {"chunk_bytes": 5000}, {"doubling_bytes": 1 << 20}):
        with pytest.raises(CallerError, match=next(iter(wrong))):
            GroupConfig(**wrong)
    store = MemoryStore()
    Group(device, store, 0, 2, GroupConfig(window=4))
    with pytest.raises(CallerError, match="rank 0 has other settings than this rank: window"):
        Group(SimDevice(fabric, "h1"), store, 1, 2, GroupConfig(window=8))


def test_a_group_that_is_closed_while_it_hears_of_a_loss_is_closed() -> None:
    """What a step is asked for behind what fails the group is done all the same."""
    with world(2) as ranks:
        work = ranks.groups[0].barrier()
        ranks.store.board.lose(1, "its process has ended")
        ranks.groups[0].close()
        assert isinstance(work.exception(), RankLost)
