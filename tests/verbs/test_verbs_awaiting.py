# SPDX-License-Identifier: BSD-2-Clause
"""Completions and drained QPs that coroutines of asyncio wait for, in virtual time."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from verbs_pair import SECOND_NS, End, Pair

from mrc.verbs import CQ, MR, QP, WC, SendWR, VerbsError, WCStatus, connect, describe


@pytest.fixture
def pair() -> Pair:
    return Pair().connect()


def write(end: End, source: MR, target: MR, number: int) -> None:
    end.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def refusal(coroutine: Coroutine[Any, Any, Any]) -> VerbsError:
    with pytest.raises(VerbsError) as caught:
        run(coroutine)
    return caught.value


def test_a_completion_is_awaited_with_a_channel_or_without(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 100_000)
    without = pair.left.context.cq(16)
    qp = QP(pair.left.pd, send_cq=without, recv_cq=without, sq_sig_all=True)
    peer = QP(pair.right.pd, send_cq=pair.right.cq, recv_cq=pair.right.cq)
    ours, theirs = describe(qp), describe(peer)
    connect(peer, theirs, ours)
    connect(qp, ours, theirs)

    async def program(end: End) -> list[WC]:
        write(end, source, target, 1)
        return await end.cq.wait()

    for end in (pair.left, replace(pair.left, cq=without, qp=qp)):
        assert [(each.wr_id, each.status) for each in run(program(end))] == [(1, WCStatus.SUCCESS)]


def test_what_is_there_already_is_given_at_once_and_no_more_than_wanted(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 100)
    for number in range(5):
        write(pair.left, source, target, number)
    pair.run(SECOND_NS)

    async def program() -> list[list[int]]:
        return [[each.wr_id for each in await pair.left.cq.wait(most)] for most in (2, 64)]

    before = pair.fabric.now
    assert run(program()) == [[0, 1], [2, 3, 4]]
    assert pair.fabric.now == before


def test_one_after_another_until_the_queue_is_closed(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 100_000)
    cq = pair.left.cq
    seen: list[int] = []

    async def taker() -> None:
        async for completion in cq:
            seen.append(completion.wr_id)
            if completion.wr_id < 9:
                write(pair.left, source, target, completion.wr_id + 1)
            else:
                pair.left.qp.close()
                cq.close()

    write(pair.left, source, target, 0)
    run(taker())
    assert seen == list(range(10))


def test_a_queue_that_is_closed_while_somebody_waits_says_so(pair: Pair) -> None:
    cq = pair.left.context.cq(16)

    async def close() -> None:
        cq.close()

    async def program() -> None:
        await asyncio.gather(cq.wait(), close())

    assert refusal(program()).errno == errno.EIO


def test_several_coroutines_wait_for_one_queue_and_for_several(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 10_000)
    other = Pair(seed=2).connect()
    other_source, other_target, _ = other.memory(b"\7" * 10_000)

    async def program() -> list[int]:
        waits = [pair.left.cq.wait(1) for _ in range(3)] + [other.left.cq.wait(1)]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.sleep(0)
        for number in range(3):
            write(pair.left, source, target, number)
        write(other.left, other_source, other_target, 7)
        return sorted([(await task)[0].wr_id for task in tasks])

    assert run(program()) == [0, 1, 2, 7]


def test_one_that_is_cancelled_takes_nothing_with_it(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 1000)

    async def program() -> list[int]:
        task = asyncio.ensure_future(pair.left.cq.wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        write(pair.left, source, target, 1)
        pair.run(SECOND_NS)
        return [each.wr_id for each in await pair.left.cq.wait()]

    assert run(program()) == [1]
    assert pair.left.cq._bells._waiting == ()


def test_waits_end_in_time(pair: Pair) -> None:
    began = pair.fabric.now
    assert refusal(pair.left.cq.wait(timeout=0)).errno == errno.EAGAIN
    assert refusal(pair.left.cq.wait(timeout=0.5)).errno == errno.ETIMEDOUT
    assert SECOND_NS // 2 <= pair.fabric.now - began < SECOND_NS
    # Virtual time is patient for an hour, as in other waits.
    assert refusal(pair.left.cq.wait()).errno == errno.ETIMEDOUT
    assert pair.fabric.now - began >= 3600 * SECOND_NS


def test_completions_that_were_lost_are_told_to_who_waits(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 100)
    small = Pair(seed=3, cqe=1).connect()
    source, target, _ = small.memory(b"\7" * 100)

    async def program() -> None:
        for number in range(3):
            write(small.left, source, target, number)
        small.run(SECOND_NS)
        await small.left.cq.wait()
        await small.left.cq.wait()

    assert refusal(program()).errno == errno.EIO


def test_a_qp_is_drained_while_others_run(pair: Pair) -> None:
    source, target, memory = pair.memory(b"\7" * 500_000)
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async def program() -> None:
        for number in range(8):
            write(pair.left, source, target, number)
        task = asyncio.ensure_future(other())
        await pair.left.qp.drained()
        order.append("drained")
        await task
        await pair.right.qp.drained(timeout=10)

    run(program())
    assert order == ["other", "drained"]
    assert memory == b"\7" * 500_000
    pair.right.qp.close()
    pair.run(SECOND_NS)
    assert {each.status for each in pair.left.cq.poll(8)} == {WCStatus.SUCCESS}


def test_drained_says_what_is_under_way(pair: Pair) -> None:
    source, target, _ = pair.memory(b"\7" * 500_000)
    write(pair.left, source, target, 1)
    refused = refusal(pair.left.qp.drained(timeout=0))
    assert (refused.errno, "1 sends have not completed" in str(refused)) == (errno.EAGAIN, True)


def test_no_descriptor_is_left_and_none_is_made_for_each_wait(pair: Pair) -> None:
    cq: CQ = pair.left.cq

    async def program() -> int:
        for _ in range(50):
            with pytest.raises(VerbsError):
                await cq.wait(timeout=0)
        return len(os.listdir("/proc/self/fd"))

    before = len(os.listdir("/proc/self/fd"))
    # One for the queue, and asyncio's own.
    assert run(program()) <= before + 4
    pair.left.qp.close()
    cq.close()
    assert len(os.listdir("/proc/self/fd")) <= before
