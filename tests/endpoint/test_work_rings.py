# SPDX-License-Identifier: BSD-2-Clause
"""Rings in a program's memory, with this test as the program: what is posted, what comes back, bells and events."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from mrc.endpoint import doorbells, work_rings
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.doorbells import BELL_WORDS, BITS, MOST_TELLS, QPNS, RUNG, Doorbells
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.work import SOLICITED
from mrc.endpoint.work_rings import CQ_WORDS, DONE_WORDS, QP_WORDS, SEND_WORDS, WorkRings
from mrc.errors import CallerError

SIGNALED = 2
EVENT_FD, ASYNC_FD = 99, 98
WRITE, RECEIVE = int(WorkKind.RDMA_WRITE), int(WorkKind.RECV_RDMA_WITH_IMM)
SUCCESS, FLUSHED = int(WorkStatus.SUCCESS), int(WorkStatus.FLUSHED)


def words(count: int) -> Any:
    return (ctypes.c_longlong * count)()


class Program:
    """A QP of 4 sends and 2 receives, one completion queue of 4."""

    def __init__(self) -> None:
        self.bells, self.qp, self.cq = words(BELL_WORDS), words(QP_WORDS), words(CQ_WORDS)
        self.sends, self.receives, self.done = words(4 * SEND_WORDS), words(2), words(4 * DONE_WORDS)
        address = ctypes.addressof
        self.cq[work_rings.CQ_MASK], self.cq[work_rings.CQ_ROOM] = 3, 4
        self.cq[work_rings.ENTRIES], self.cq[work_rings.EVENT_FD] = address(self.done), EVENT_FD
        self.cq[work_rings.ASYNC_FD] = ASYNC_FD
        self.qp[work_rings.SEND_MASK], self.qp[work_rings.RECEIVE_MASK] = 3, 1
        self.qp[work_rings.SENDS], self.qp[work_rings.RECEIVES] = address(self.sends), address(self.receives)
        self.qp[work_rings.SEND_CQ] = self.qp[work_rings.RECEIVE_CQ] = address(self.cq)
        self.doorbells = Doorbells(address(self.bells), 7)
        self.rings = WorkRings(address(self.qp), self.doorbells)
        self.rings.begin(77)

    def post_send(self, wr_id: int, flags: int = 0) -> None:
        posted = self.qp[work_rings.SENDS_POSTED]
        at = (posted & 3) * SEND_WORDS
        self.sends[at], self.sends[at + work_rings.FLAGS] = wr_id, flags
        self.qp[work_rings.SENDS_POSTED] = posted + 1

    def post_receive(self, wr_id: int) -> None:
        posted = self.qp[work_rings.RECEIVES_POSTED]
        self.receives[posted & 1] = wr_id
        self.qp[work_rings.RECEIVES_POSTED] = posted + 1

    def poll(self) -> list[tuple[int, ...]]:
        """(wr_id, status, kind, length, immediate, QPN) of what has ended."""
        found = []
        while self.cq[work_rings.POLLED] < self.cq[work_rings.CAME]:
            at = (self.cq[work_rings.POLLED] & 3) * DONE_WORDS
            found.append(tuple(self.done[at : at + 6]))
            self.cq[work_rings.POLLED] += 1
        return found


def test_sends_are_taken_in_order_and_only_signaled_ones_complete() -> None:
    """MRC-API-03."""
    program = Program()
    rings = program.rings
    assert (rings.sends, rings.receives) == (4, 2)
    assert not rings.send_waits()
    for round_ in range(3):
        for number in range(3):
            program.post_send(10 * round_ + number, SIGNALED if number == 2 else 0)
        taken = []
        while rings.send_waits():
            taken.append(rings.send(rings.take_send()))
        assert taken == [10 * round_, 10 * round_ + 1, 10 * round_ + 2]
        for wr_id in taken:
            rings.complete(wr_id, SUCCESS, 5, WRITE, -1)
        assert program.poll() == [(10 * round_ + 2, SUCCESS, WRITE, 5, -1, 77)]
    assert program.qp[work_rings.SENDS_ENDED] == 9


def test_receives_complete_always_and_errors_too() -> None:
    program = Program()
    program.post_receive(-5)
    assert program.rings.receive_waits()
    assert program.rings.take_receive() == -5
    assert not program.rings.receive_waits()
    program.rings.complete(-5, SUCCESS, 8, RECEIVE, 0xFFFFFFFF)
    program.post_send(1)
    program.rings.take_send()
    program.rings.complete(1, int(WorkStatus.REMOTE_ACCESS_ERROR), 0, WRITE, -1)
    assert program.poll() == [
        (-5, SUCCESS, RECEIVE, 8, 0xFFFFFFFF, 77),
        (1, int(WorkStatus.REMOTE_ACCESS_ERROR), WRITE, 0, -1, 77),
    ]


def test_what_is_posted_in_error_is_flushed() -> None:
    program = Program()
    program.post_send(1)
    program.post_receive(2)
    program.rings.flush()
    assert [done[:3] for done in program.poll()] == [(1, FLUSHED, WRITE), (2, FLUSHED, RECEIVE)]
    program.rings.enter(6)
    assert program.qp[work_rings.STATE] == 6
    program.rings.begin(78)
    assert program.qp[work_rings.SENDS_POSTED] == program.qp[work_rings.SENDS_ENDED] == 0
    assert program.qp[work_rings.QPN] == 78


def test_a_full_completion_queue_says_that_completions_are_lost() -> None:
    program = Program()
    for number in range(5):
        program.rings.complete(number, SUCCESS, 0, RECEIVE, 1)
    assert program.cq[work_rings.OVERRUN] == 1
    assert [done[0] for done in program.poll()] == [0, 1, 2, 3]


def test_an_armed_queue_asks_for_its_event_once() -> None:
    program = Program()
    bells, rings = program.doorbells, program.rings
    rings.complete(0, SUCCESS, 0, RECEIVE, 1)
    assert bells.next_told() == -1
    for status, immediate in ((FLUSHED, -1), (SUCCESS, SOLICITED | 1)):
        program.cq[work_rings.ARMED] = work_rings.SOLICITED_ONLY
        for unsolicited in (1, 0, 0xFFFFFFFF, -1):
            rings.complete(0, SUCCESS, 0, RECEIVE, unsolicited)
            program.poll()
            assert bells.next_told() == -1
        rings.complete(0, status, 0, RECEIVE, immediate)
        program.poll()
        assert (bells.next_told(), bells.next_told()) == (EVENT_FD, -1)
    program.cq[work_rings.ARMED] = work_rings.ANYTHING
    rings.complete(0, SUCCESS, 0, RECEIVE, 1)
    assert program.cq[work_rings.ARMED] == work_rings.NOTHING
    assert bells.next_told() == EVENT_FD


def test_a_queue_that_has_lost_completions_asks_once_for_that_to_be_told() -> None:
    program = Program()
    for wr_id in range(9):
        program.rings.complete(wr_id, SUCCESS, 0, RECEIVE, 1)
    assert program.cq[work_rings.OVERRUN] == 1
    assert (program.doorbells.next_told(), program.doorbells.next_told()) == (ASYNC_FD, -1)
    assert [done[0] for done in program.poll()] == [0, 1, 2, 3]


def test_a_queue_whose_context_is_closed_tells_nobody() -> None:
    program = Program()
    program.cq[work_rings.ASYNC_FD] = -1
    for wr_id in range(9):
        program.rings.complete(wr_id, SUCCESS, 0, RECEIVE, 1)
    assert program.doorbells.next_told() == -1


def test_an_event_that_finds_no_room_stays_armed() -> None:
    program = Program()
    assert all(program.doorbells.tell(1) for _ in range(MOST_TELLS))
    assert not program.doorbells.tell(1)
    program.cq[work_rings.ARMED] = work_rings.ANYTHING
    program.rings.complete(0, SUCCESS, 0, RECEIVE, 1)
    assert program.cq[work_rings.ARMED] == work_rings.ANYTHING


def test_bells_name_each_qp_that_rang_once() -> None:
    program = Program()
    bells, memory = program.doorbells, program.bells
    assert memory[doorbells.BELL] == 7
    assert not bells.take()
    for place in range(4096):
        memory[QPNS + place] = -1 if place == 5 else 1000 + place
    for place in (0, 5, 63, 64, 4095):
        memory[BITS + place] = 1
    memory[RUNG] = 1
    assert bells.take()
    found = []
    while (qpn := bells.next(0)) != -1:
        found.append(qpn)
    assert found == [1000, 1063, 1064, 5095]
    assert not bells.take()


def test_who_has_work_does_not_go_to_sleep() -> None:
    program = Program()
    assert program.doorbells.sleeps()
    assert program.bells[doorbells.ASLEEP] == doorbells.SLEEPS
    program.doorbells.awake()
    assert program.bells[doorbells.ASLEEP] == doorbells.AWAKE
    program.bells[RUNG] = doorbells.SINGLY
    assert program.doorbells.has_rung()
    assert not program.doorbells.sleeps()
    assert program.bells[doorbells.ASLEEP] == doorbells.AWAKE


def test_in_a_burst_the_endpoint_dozes_once_before_it_sleeps() -> None:
    program = Program()
    bells, memory = program.doorbells, program.bells
    memory[RUNG] = doorbells.SINGLY
    assert bells.take()
    assert not bells.dozes()
    memory[RUNG] = doorbells.IN_BURST
    assert bells.take()
    assert not bells.has_rung()
    assert bells.dozes()
    assert memory[doorbells.ASLEEP] == doorbells.DOZES
    bells.awake()
    assert not bells.dozes()


def test_who_has_work_does_not_doze() -> None:
    program = Program()
    bells, memory = program.doorbells, program.bells
    memory[RUNG] = doorbells.IN_BURST
    assert bells.take()
    memory[RUNG] = doorbells.IN_BURST
    assert not bells.dozes()
    assert memory[doorbells.ASLEEP] == doorbells.AWAKE
    assert bells.take()
    assert bells.dozes()


def test_a_program_that_waits_elsewhere_finds_an_endpoint_that_does_not_doze_for_some_bursts() -> None:
    program = Program()
    bells, memory = program.doorbells, program.bells

    def dozes_in_a_burst() -> bool:
        memory[RUNG] = doorbells.IN_BURST
        assert bells.take()
        return bells.dozes()

    assert dozes_in_a_burst()
    bells.overslept()
    assert dozes_in_a_burst()  # nothing was posted meanwhile
    memory[RUNG] = doorbells.IN_BURST
    bells.overslept()
    assert [dozes_in_a_burst() for _ in range(66)] == [False] * 64 + [True, True]


def test_a_qp_in_an_endpoint_takes_receives_from_its_program_and_gives_them_back_flushed() -> None:
    """MRC-API-03."""
    program = Program()
    endpoint = Endpoint()
    endpoint.datapath.doorbells = program.doorbells
    qp = endpoint.create_qp(QpConfig(), rings=ctypes.addressof(program.qp))
    qp.to_init()
    for wr_id in (5, 6):
        program.post_receive(wr_id)
    qp.datapath.take_posted()
    assert not program.rings.receive_waits()
    qp.to_error("the program ends")
    assert [(wr_id, status) for wr_id, status, *_ in program.poll()] == [(5, FLUSHED), (6, FLUSHED)]


def test_an_endpoint_without_doorbells_has_no_rings() -> None:
    program = Program()
    with pytest.raises(CallerError, match="rings"):
        Endpoint().create_qp(QpConfig(), rings=ctypes.addressof(program.qp))
