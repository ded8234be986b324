# SPDX-License-Identifier: BSD-2-Clause
"""Messages in the order they were posted, and the packets that are theirs (behaviour.md, Requestor)."""

from __future__ import annotations

from typing import Any

import pytest
from within import SEEN_FROM_WITHIN

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError

SOURCE = MemoryRegion(bytes(4096), 0, 0, remote_write=False)
FIRST = 1000


def _queue(max_wimm: int = 2) -> SendQueue:
    told: list[Any] = []
    return SendQueue(QpConfig(path_mtu=256, max_wimm=max_wimm), CompletionRing(0, told.append))


def _write(number: int, length: int = 256, immediate: int | None = None) -> WriteRequest:
    return WriteRequest(number, SOURCE, number, length, 0x1000 + number, number + 7, immediate)


def _leave(queue: SendQueue, psn: int) -> int:
    """The next packet leaves: the message it is of, -1 where none may."""
    msn = queue.next()
    if msn >= 0:
        queue.begin(psn)
    return msn


@SEEN_FROM_WITHIN
def test_what_is_posted_stays_what_it_is_however_much_waits() -> None:
    """In parts: the oldest are done with while others come, and the room grows in between."""
    queue, posted, psn = _queue(), list[WriteRequest](), FIRST
    for round_ in range(6):
        for _ in range(10 * (round_ + 1)):
            posted.append(_write(len(posted), 256 * (len(posted) % 3)))
            queue.post(posted[-1])
        for _ in range(5):
            _leave(queue, psn)
            psn += 1
        queue.finish(psn)
        for msn in queue.unfinished():
            place, request = queue.place(msn), posted[msn]
            assert queue.request(msn) is request
            assert queue.wr_ids[place] == request.wr_id
            assert queue.length[place] == request.length
            assert queue.packets[place] == max(1, request.length // 256)
            assert (queue.remote_va[place], queue.rkey[place]) == (request.remote_va, request.rkey)
            assert queue.address[place] == SOURCE.address + request.offset
        assert queue.next_msn == len(posted)
        assert queue.request(queue.oldest - 1) is None
        assert queue.request(queue.next_msn) is None


@SEEN_FROM_WITHIN
def test_memory_of_what_is_done_with_is_let_go() -> None:
    queue = _queue()
    for number in range(8):
        queue.post(_write(number))
    for number in range(6):
        assert _leave(queue, FIRST + number) == number
    queue.finish(FIRST + 5)
    queue.release()
    assert queue.oldest == 5
    assert sum(request is not None for request in queue._requests) == 3
    queue.finish(FIRST + 6)
    queue.release()
    assert [queue.request(msn) is not None for msn in range(8)] == [False] * 6 + [True] * 2


def test_a_single_packet_that_waits_is_told_from_more() -> None:
    queue = _queue()
    queue.post(_write(0, 768))
    seen = []
    for psn in range(3):
        seen.append(queue.one_packet_waits())
        _leave(queue, psn)
    assert seen == [False, False, True]
    assert not queue.has_unsent()
    queue.post(_write(1))
    assert queue.one_packet_waits()
    queue.post(_write(2))
    assert not queue.one_packet_waits()
    _leave(queue, 4)
    assert queue.one_packet_waits()


@SEEN_FROM_WITHIN
def test_as_many_immediates_are_out_as_the_peer_grants() -> None:
    """One that has begun goes on; others wait with all behind them; each acknowledged one lets another go."""
    queue = _queue(max_wimm=2)
    for number, immediate in enumerate((5, None, 6, 7, None)):
        queue.post(_write(number, 512, immediate))
    assert [_leave(queue, FIRST + at) for at in range(7)] == [0, 0, 1, 1, 2, 2, -1]
    assert [queue.rqmsn[queue.place(msn)] for msn in (0, 2, 3)] == [0, 1, 2]
    assert [queue.has_immediate(msn) for msn in (0, 1, 2, -1)] == [True, False, True, False]
    queue.finish(FIRST + 1)
    assert queue.next() == -1
    queue.finish(FIRST + 2)
    assert [_leave(queue, FIRST + 6 + at) for at in range(5)] == [3, 3, 4, 4, -1]
    assert queue.immediates_out == 2


def test_without_a_grant_an_immediate_is_refused_and_a_write_is_not() -> None:
    queue = _queue(max_wimm=0)
    queue.post(_write(0))
    with pytest.raises(CallerError, match="max_wimm"):
        queue.post(_write(1, 256, 5))
    assert _leave(queue, FIRST) == 0


def test_the_message_of_a_psn() -> None:
    queue = _queue()
    assert queue.holding(None) == queue.holding(5) == -1
    for number in range(3):
        queue.post(_write(number, 512))
    for psn in range(5):
        _leave(queue, psn)
    assert [queue.holding(psn) for psn in (0, 1, 2, 3, 4)] == [0, 0, 1, 1, 2]
    assert queue.holding(5) == 0  # has not left: the oldest
    assert queue.holding(None) == 0


def test_room_is_made_for_what_is_not_done_with() -> None:
    """Not for what is: after ten that are done with, forty more wait."""
    queue, posted = _queue(), [_write(number) for number in range(50)]
    for number, request in enumerate(posted):
        if number == 10:
            for psn in range(10):
                _leave(queue, psn)
            queue.finish(10)
        queue.post(request)
        assert queue.request(queue.next_msn) is None
    assert [queue.request(msn) for msn in queue.unfinished()] == posted[10:]
