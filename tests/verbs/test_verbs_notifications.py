# SPDX-License-Identifier: BSD-2-Clause
"""Completion channels: an event only after it is asked for, none lost, a file descriptor that any poller takes."""

from __future__ import annotations

import errno
import select
import selectors
import threading
from collections.abc import Iterator

import pytest
from verbs_pair import Pair

from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import (
    CQ,
    QP,
    WC,
    AsyncEventType,
    CompChannel,
    Context,
    SendWR,
    VerbsError,
    WCOpcode,
    WCStatus,
)


def readable(channel: CompChannel) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))


def completion(number: int = 0, status: WCStatus = WCStatus.SUCCESS) -> WC:
    return WC(number, status, WCOpcode.RDMA_WRITE, 0, 1)


@pytest.fixture
def context() -> Iterator[Context]:
    with Context(SimDevice(SimFabric(Clos()), "h0")) as context:
        yield context


@pytest.fixture
def channel(context: Context) -> CompChannel:
    return context.comp_channel()


@pytest.fixture
def cq(context: Context, channel: CompChannel) -> CQ:
    return context.cq(16, channel=channel)


def no_event(channel: CompChannel) -> bool:
    with pytest.raises(VerbsError) as caught:
        channel.get_cq_event(timeout=0)
    assert caught.value.errno == errno.EAGAIN
    return not readable(channel)


def test_no_event_unless_asked_for(cq: CQ, channel: CompChannel) -> None:
    cq.push(completion())
    assert no_event(channel)


def test_one_event_for_the_next_completion_and_no_more(cq: CQ, channel: CompChannel) -> None:
    cq.req_notify()
    assert no_event(channel)
    cq.push(completion(1))
    cq.push(completion(2))
    assert readable(channel)
    assert channel.get_cq_event() is cq
    assert no_event(channel)
    assert [done.wr_id for done in cq.poll(8)] == [1, 2]


def test_completions_that_are_there_already_make_no_event(cq: CQ, channel: CompChannel) -> None:
    cq.push(completion())
    cq.req_notify()
    assert no_event(channel)
    cq.push(completion())
    assert channel.get_cq_event(timeout=0) is cq


def test_asking_twice_makes_one_event(cq: CQ, channel: CompChannel) -> None:
    cq.req_notify()
    cq.req_notify()
    cq.push(completion())
    cq.push(completion())
    channel.get_cq_event()
    assert no_event(channel)


@pytest.mark.parametrize(("status", "solicited"), [(WCStatus.FLUSHED, False), (WCStatus.SUCCESS, True)])
def test_solicited_only_means_what_is_solicited_and_errors(
    status: WCStatus, solicited: bool, cq: CQ, channel: CompChannel
) -> None:
    cq.req_notify(solicited_only=True)
    cq.push(completion())
    assert no_event(channel)
    cq.push(completion(status=status), solicited)
    assert channel.get_cq_event(timeout=0) is cq


def test_asking_for_less_does_not_take_back_the_wish_for_all(cq: CQ, channel: CompChannel) -> None:
    cq.req_notify()
    cq.req_notify(solicited_only=True)
    cq.push(completion())
    assert channel.get_cq_event(timeout=0) is cq


def test_asking_for_all_widens_the_wish_for_errors(cq: CQ, channel: CompChannel) -> None:
    cq.req_notify(solicited_only=True)
    cq.req_notify()
    cq.push(completion())
    assert channel.get_cq_event(timeout=0) is cq


def test_a_channel_tells_which_queue_it_was_in_order(context: Context, channel: CompChannel) -> None:
    queues = [context.cq(4, channel=channel, cq_context=name) for name in "abc"]
    for cq in queues:
        cq.req_notify()
    for cq in reversed(queues):
        cq.push(completion())
    assert [channel.get_cq_event().cq_context for _ in queues] == ["c", "b", "a"]


def test_events_want_to_be_acknowledged_once(cq: CQ, channel: CompChannel) -> None:
    for _ in range(3):
        cq.req_notify()
        cq.push(completion())
        channel.get_cq_event()
    assert cq.unacknowledged == 3
    cq.ack_cq_events(2)
    with pytest.raises(VerbsError, match="1 events are not acknowledged yet, got 2") as caught:
        cq.ack_cq_events(2)
    assert caught.value.errno == errno.EINVAL
    cq.ack_cq_events(1)


def test_a_queue_without_a_channel_cannot_be_asked(context: Context) -> None:
    with pytest.raises(VerbsError, match="has no channel to tell"):
        context.cq(4).req_notify()


def test_a_closed_queue_leaves_no_events(context: Context, channel: CompChannel, cq: CQ) -> None:
    other = context.cq(4, channel=channel)
    for queue in (cq, other):
        queue.req_notify()
        queue.push(completion())
    cq.close()
    assert channel.get_cq_event(timeout=0) is other
    assert no_event(channel)


def test_a_channel_in_use_stays_open(channel: CompChannel, cq: CQ) -> None:
    with pytest.raises(VerbsError, match="1 completion queues use the channel") as caught:
        channel.close()
    assert caught.value.errno == errno.EBUSY
    cq.close()
    channel.close()
    with pytest.raises(VerbsError) as caught:
        channel.get_cq_event()
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("selector", [selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector])
def test_every_poller_takes_the_descriptor(
    cq: CQ, channel: CompChannel, selector: type[selectors.BaseSelector]
) -> None:
    with selector() as poller:
        poller.register(channel, selectors.EVENT_READ)
        assert poller.select(0) == []
        cq.req_notify()
        cq.push(completion())
        assert [key.fileobj for key, _ in poller.select(0)] == [channel]
        channel.get_cq_event()
        assert poller.select(0) == []


def test_waiting_lets_virtual_time_pass_until_the_event() -> None:
    pair = Pair().connect()
    pair.left.cq.req_notify()
    pair.left.qp.post_send(SendWR(3))
    assert pair.left.channel.get_cq_event() is pair.left.cq
    assert [done.wr_id for done in pair.left.cq.poll()] == [3]
    assert 0 < pair.fabric.now < 1_000_000


def test_a_wait_ends_in_time() -> None:
    pair = Pair()
    with pytest.raises(VerbsError) as caught:
        pair.left.channel.get_cq_event(timeout=2.5)
    assert caught.value.errno == errno.ETIMEDOUT
    assert pair.fabric.now == 2_500_000_000


# ------------------------------------------------------------------ more completions than there is room for


def test_an_overflow_is_an_event_and_an_error_of_the_queue() -> None:
    pair = Pair(cqe=2).connect()
    for number in range(4):
        pair.left.qp.post_send(SendWR(number))
    pair.run(1_000_000)
    event = pair.left.context.get_async_event(timeout=0)
    assert (event.event_type, event.element) == (AsyncEventType.CQ_ERR, pair.left.cq)
    with pytest.raises(VerbsError, match="EAGAIN"):
        pair.left.context.get_async_event(timeout=0)
    assert [done.wr_id for done in pair.left.cq.poll(8)] == [0, 1]
    with pytest.raises(VerbsError, match="more than 2 completions came") as caught:
        pair.left.cq.poll(8)
    assert caught.value.errno == errno.EIO


def test_a_full_queue_that_is_polled_does_not_overflow() -> None:
    pair = Pair(cqe=2).connect()
    for number in range(10):
        pair.left.qp.post_send(SendWR(number))
        assert pair.left.poll_all(1)[0].wr_id == number
    assert not pair.left.cq.overrun


@pytest.mark.parametrize("cqe", [0, -1, (1 << 22) + 1, 1.0])
def test_the_size_of_a_queue_has_bounds(context: Context, cqe: int) -> None:
    with pytest.raises(VerbsError, match="cqe must be") as caught:
        context.cq(cqe)
    assert caught.value.errno == errno.EINVAL


# ------------------------------------------------------------------ threads


def test_no_wake_up_is_lost_between_a_producer_and_a_waiting_consumer(cq: CQ, channel: CompChannel) -> None:
    """The consumer polls, asks, polls once more, and only then waits: it must get everything and never hang."""
    total = 20_000
    got: list[int] = []
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    room = threading.Semaphore(16)
    hung = False

    def consume() -> None:
        nonlocal hung
        while len(got) < total:
            done = cq.poll(16)
            if not done:
                cq.req_notify()
                done = cq.poll(16)
            if done:
                got.extend(each.wr_id for each in done)
                for _ in done:
                    room.release()
                continue
            if not poller.poll(20_000):
                hung = True
                return
            channel.get_cq_event(timeout=0)
            cq.ack_cq_events(1)

    thread = threading.Thread(target=consume)
    thread.start()
    for number in range(total):
        if not room.acquire(timeout=30):
            break
        cq.push(completion(number))
    thread.join(60)
    assert not hung
    assert got == list(range(total))
    assert not cq.overrun


def test_many_threads_poll_each_completion_once(context: Context) -> None:
    total, workers = 20_000, 4
    cq = context.cq(total)
    for number in range(total):
        cq.push(completion(number))
    taken: list[list[int]] = [[] for _ in range(workers)]

    def poll(mine: list[int]) -> None:
        while sum(map(len, taken)) < total:
            mine.extend(done.wr_id for done in cq.poll(7)) if cq._queue else None
            if not cq._queue:
                return

    threads = [threading.Thread(target=poll, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(number for mine in taken for number in mine) == list(range(total))


def test_a_closed_qp_leaves_nothing_in_its_queue() -> None:
    pair = Pair().connect()
    pair.left.qp.post_send(SendWR(1))
    pair.run(1_000_000)
    other = QP(pair.left.pd, send_cq=pair.left.cq, recv_cq=pair.left.cq)
    pair.left.qp.close()
    assert pair.left.cq.poll(4) == []
    other.close()
    pair.left.cq.close()
