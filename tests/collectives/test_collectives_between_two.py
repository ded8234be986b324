# SPDX-License-Identifier: BSD-2-Clause
"""Sends and receives, and groups of some of the ranks."""

from __future__ import annotations

import numpy as np
import pytest
from collectives_world import PATIENCE_S, world

from mrc.collectives import CallMismatch, Group, RankLost
from mrc.errors import CallerError


def test_sends_arrive_in_the_order_of_their_tags_and_calls() -> None:
    """Whoever is called first waits: a send for its receive, a receive for its send."""
    with world(3) as ranks:
        first, second, third = ranks.groups
        sent = [np.full(count, count, np.int64) for count in (1, 700, 5000)]
        other = np.arange(10.0)
        works = [first.send(array, 1, tag=7) for array in sent] + [first.send(other, 1, tag=8)]
        got, got_other = [np.zeros_like(array) for array in sent], np.zeros(10)
        works.append(second.recv(got_other, 0, tag=8))
        works += [second.recv(array, 0, tag=7) for array in got]
        early = np.zeros(4)
        works.append(third.recv(early, 1))
        works.append(second.send(np.ones(4), 2))
        for work in works:
            work.wait(PATIENCE_S)
        for array, source in zip(got, sent, strict=True):
            np.testing.assert_array_equal(array, source)
        np.testing.assert_array_equal(got_other, other)
        np.testing.assert_array_equal(early, np.ones(4))


def test_many_at_once_both_ways_beside_a_collective() -> None:
    """More than may be under way at once, and none of them holds up the others."""
    with world(2) as ranks:
        one, two = ranks.groups
        arrays = [np.full(3000, number) for number in range(20)]
        got = [[np.zeros(3000, int) for _ in arrays] for _ in range(2)]
        works = [one.send(array, 1, number) for number, array in enumerate(arrays)]
        works += [two.send(array, 0, number) for number, array in enumerate(arrays)]
        sums = [np.ones(9000) for _ in range(2)]
        works += [group.all_reduce(sums[group.rank]) for group in ranks.groups]
        for number in reversed(range(20)):
            works.append(one.recv(got[0][number], 1, number))
            works.append(two.recv(got[1][number], 0, number))
        for work in works:
            work.wait(PATIENCE_S)
        np.testing.assert_array_equal(got, [arrays, arrays])
        np.testing.assert_array_equal(sums, np.full((2, 9000), 2.0))


def test_sizes_that_differ_end_the_group() -> None:
    with world(2) as ranks:
        one, two = ranks.groups
        send, recv = one.send(np.zeros(10), 1), two.recv(np.zeros(11), 0)
        with pytest.raises(CallMismatch, match=r"rank 1 expects 88 bytes of this rank's send or recv.*sends it 80"):
            send.wait(PATIENCE_S)
        with pytest.raises(Exception, match="rank 0 has given up: rank 1 expects 88 bytes"):
            recv.wait(PATIENCE_S)


def test_what_a_send_refuses() -> None:
    with world(2) as ranks:
        group = ranks.groups[0]
        with pytest.raises(CallerError, match="cannot send to itself"):
            group.send(np.zeros(1), 0)
        with pytest.raises(CallerError, match=r"the other rank is 0\.\.1 in a group of 2, got 2"):
            group.recv(np.zeros(1), 2)
        with pytest.raises(CallerError, match="tag is"):
            group.send(np.zeros(1), 1, tag=-1)


def made(groups: list[Group], ranks: list[int]) -> dict[int, Group]:
    found = {group.rank: group.subgroup(ranks) for group in groups}
    assert all((group is not None) == (rank in ranks) for rank, group in found.items())
    return {rank: group for rank, group in found.items() if group is not None}


def test_subgroups() -> None:
    """Their ranks are counted in the order given, and they do not hold up each other, nor the whole group."""
    with world(5) as ranks:
        odd, reverse, again = (made(ranks.groups, each) for each in ([1, 3], [4, 2, 0], [1, 3]))
        assert [reverse[rank].rank for rank in (4, 2, 0)] == [0, 1, 2]
        arrays = [np.full(2000, 10**rank) for rank in range(5)]
        works = [group.all_reduce(arrays[rank]) for part in (reverse, odd) for rank, group in part.items()]
        whole = [np.ones(3) for _ in range(5)]
        works += [group.all_reduce(whole[group.rank]) for group in ranks.groups]
        # The second one of the same ranks is another group.
        late = again[3].barrier()
        works.append(again[1].barrier())
        for work in [*works, late]:
            work.wait(PATIENCE_S)
        for rank, array in enumerate(arrays):
            assert set(array.tolist()) == {1010 if rank % 2 else 10101}
        np.testing.assert_array_equal(whole, np.full((5, 3), 5.0))
        smaller = made([odd[1], odd[3]], [0])
        assert list(smaller) == [0]
        smaller[0].all_reduce(np.ones(1)).wait()
        for group in odd.values():
            group.close()
        with pytest.raises(CallerError, match="the group is closed"):
            odd[1].barrier()


def test_what_a_subgroup_refuses() -> None:
    with world(2) as ranks:
        group = ranks.groups[0]
        for wrong in ([], [0, 0]):
            with pytest.raises(CallerError, match="one rank or more, each once"):
                group.subgroup(wrong)
        with pytest.raises(CallerError, match="a subgroup's rank"):
            group.subgroup([0, 2])


def test_receives_from_any_rank() -> None:
    """Whoever sends first, before or after the receive; those that name a rank take theirs out of the count."""
    with world(4) as ranks:
        first, *others = ranks.groups
        got = [np.zeros(900) for _ in range(6)]
        works = [first.recv(got[0], None, 3)]
        sends = [others[1].send(np.full(900, 2.0), 0, 3)]
        works[0].wait(PATIENCE_S)
        assert (works[0].source, got[0][0]) == (2, 2.0)
        # The only send of rank 1 is for the one that names it: the others wait for rank 3.
        sends.append(others[0].send(np.full(900, 1.0), 0, 3))
        works += [first.recv(got[1], 1, 3), first.recv(got[2], None, 3), first.recv(got[3], None, 3)]
        works[1].wait(PATIENCE_S)
        assert got[1][0] == 1.0
        ranks.fabric.run(ranks.fabric.now + 10**8)
        assert not works[2].done
        sends += [others[2].send(np.full(900, value), 0, 3) for value in (3.0, 3.5)]
        # One with another tag is not theirs.
        sends.append(others[0].send(np.full(900, 9.0), 0, 4))
        for work in works[2:]:
            work.wait(PATIENCE_S)
        assert sorted(array[0] for array in got[2:4]) == [3.0, 3.5]
        assert {work.source for work in works[2:]} == {3}
        last = first.recv(got[4], None, 4)
        last.wait(PATIENCE_S)
        assert (last.source, got[4][0]) == (1, 9.0)
        for send in sends:
            send.wait(PATIENCE_S)


def test_every_send_is_received_once_whoever_is_named() -> None:
    """Receives that name a rank, that name none, and sends, in drawn orders: each array arrives once, in its order."""
    random = np.random.default_rng(11)
    for _ in range(25):
        with world(3) as ranks:
            first = ranks.groups[0]
            counts = [int(random.integers(0, 5)) for _ in range(2)]
            named = [int(random.integers(0, count + 1)) for count in counts]
            sends = [(rank + 1, number) for rank, count in enumerate(counts) for number in range(count)]
            receives: list[int | None] = [rank + 1 for rank, count in enumerate(named) for _ in range(count)]
            receives += [None] * (sum(counts) - sum(named))
            steps = [("send", each) for each in sends] + [("recv", each) for each in receives]
            # Sends of one rank keep their order.
            order = random.permutation(len(steps))
            turn = {rank: iter([each for each in sends if each[0] == rank]) for rank in (1, 2)}
            works, got = [], []
            for place in order:
                what, which = steps[place]
                if what == "send":
                    rank, number = next(turn[which[0]])  # type: ignore[index]
                    works.append(ranks.groups[rank].send(np.array([rank, number]), 0))
                else:
                    into = np.zeros(2, int)
                    work = first.recv(into, which)  # type: ignore[arg-type]
                    works.append(work)
                    got.append((work, into))
                if random.random() < 0.5:
                    ranks.fabric.run(ranks.fabric.now + 10**7)
            # A receive of any rank may take what a later one names, as it would over any backend: the last to come
            # of those then waits. Only the sums are the same in all orders.
            named_late = any(which is not None for what, which in steps if what == "recv")
            for work in works if not named_late else ():
                work.wait(PATIENCE_S)
            if named_late:
                ranks.fabric.run(ranks.fabric.now + 10**9)
            arrived = [(work, tuple(into)) for work, into in got if work.done]
            assert len({each for _, each in arrived}) == len(arrived)
            assert all(work.source == rank for work, (rank, _) in arrived)
            if not named_late:
                assert sorted(each for _, each in arrived) == sorted(sends)
            for rank in (1, 2):
                numbers = [number for _, (source, number) in arrived if source == rank]
                assert sorted(numbers) == list(range(len(numbers)))
            if named_late and any(not work.done for work in works):
                for group in ranks.groups:
                    group.abort("enough")


def test_a_receive_from_any_rank_ends_when_all_others_have_left() -> None:
    with world(3) as ranks:
        work = ranks.groups[0].recv(np.zeros(3), None)
        ranks.groups[1].close()
        ranks.fabric.run(ranks.fabric.now + 10**8)
        assert not work.done
        ranks.groups[2].close()
        with pytest.raises(RankLost, match="every other rank has closed its group"):
            work.wait(PATIENCE_S)
        with pytest.raises(CallerError, match="an empty array comes from no rank"):
            ranks.groups[0].recv(np.zeros(0), None)
