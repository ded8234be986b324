# SPDX-License-Identifier: BSD-2-Clause
"""The loop's turn for an endpoint that is run by its methods: plain RC, and subclasses that watch or change it."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from mrc.endpoint.parts.flags import Flag
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.net.driven import Driven
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.ports import PACKET_BUFFER_BYTES, Port, waiting_in
from mrc.net.turn import AWAKE_NS, MOST_TURNS_BEFORE_TIMERS, SHORT_BATCH, SHORT_BATCH_PAUSE_NS, STREAM
from mrc.wire.transmit_batch import TransmitBatch

T = TypeVar("T")
_NS = 1e-9


class PlainTurn:
    """As `mrc.net.turn.Turn`, by way of the endpoint's methods. Python is asked after every turn."""

    def __init__(
        self,
        endpoint: Driven,
        receiver: BatchReceiver,
        sender: BatchSender,
        batch: TransmitBatch,
        ports: Sequence[Port],
        budget: ReceiveBudget | None,
    ) -> None:
        self._endpoint = endpoint
        self._receiver = receiver
        self._sender = sender
        self._batch = batch
        self._ports = ports
        self._budget = budget
        self._fds: list[int] = []
        self._others: list[int] = []
        self.look_at = self.sleep_until = self.holder = 0
        self.wanted = Flag()
        self.readable = 0
        self._arrived = False
        self._sends_first = False
        self._before_timers = 0
        self._short_batches = 0  # in a row
        self._data_before_answers = 0

    def watch(self, ports: list[int], others: list[int]) -> None:
        """Sleep until one of these descriptors is readable: those of the ports, or Python's."""
        self._fds, self._others = [*ports, *others], others

    def inside(self, action: Callable[[], T], thread: int) -> T:
        """Run `action`: one thread has the endpoint, that of the loop or who holds the driver's lock."""
        try:
            self.holder = thread
            return action()
        finally:
            self.holder = 0

    def close(self) -> None:
        """End the turn: no thread turns any more."""

    def ring(self, bell: int) -> None:
        """Make an eventfd readable."""
        os.eventfd_write(bell, 1)

    def run(self, until: int, ask_first: bool) -> None:
        """One turn, and then sleep if there was nothing to do. `until`: the clock, ns; `ask_first`: Python is asked
        between what arrives and what leaves."""
        received = 0
        self.readable = self._ask_python_fds() if time.monotonic_ns() >= self.look_at else 0
        if not self._sends_first:
            if not self._arrived:
                self._arrived = self._receiver.receive() > 0
            if self._arrived and self.wanted.up:
                # A receive posted before the peer sent must be there when it arrives.
                return
            received = self._take_in()
            if ask_first:
                self._sends_first = True
                return
        self._sends_first = False
        sent = self._transmit()
        if sent == self._batch.capacity or self.wanted.up:
            return
        if not received:
            self._short_batches = 0
            if not sent and not ask_first:
                self._sleep(until)
        elif received < SHORT_BATCH:
            self._short_batches += 1
            # Who sends more than it was sent has data of its own and no time to lose.
            if self._short_batches >= STREAM and sent <= received + 1:
                time.sleep(SHORT_BATCH_PAUSE_NS * _NS)

    def _take_in(self) -> int:
        received = 0
        if self._arrived:
            self._arrived = False
            received = self._receiver.batch.count
            if self._budget is not None:
                waiting = sum(waiting_in(port.receiver) for port in self._ports) if self._receiver.more else 0
                self._budget.on_backlog(waiting // PACKET_BUFFER_BYTES)
            self._endpoint.receive(self._receiver.batch, time.monotonic_ns())
        now = time.monotonic_ns()
        deadline = self._endpoint.next_deadline()
        if deadline is not None and deadline <= now and self._timers_may_run():
            self._endpoint.on_timer(now)
        return received

    def _timers_may_run(self) -> bool:
        self._before_timers = self._before_timers + 1 if self._receiver.more else 0
        if self._before_timers > MOST_TURNS_BEFORE_TIMERS:
            self._before_timers = 0
        return self._before_timers == 0

    def _transmit(self) -> int:
        count = self._endpoint.transmit(self._batch, time.monotonic_ns())
        if count:
            self._endpoint.counters.not_sent_by_system += self._sender.send()
            self._batch.clear()
        return count

    def _sleep(self, until: int) -> None:
        now = time.monotonic_ns()
        deadline = self._endpoint.next_deadline()
        end = min(until, self.sleep_until) if deadline is None else min(until, self.sleep_until, deadline)
        readable: list[int] = []
        if self._endpoint.data_before_answers != self._data_before_answers:
            self._data_before_answers = self._endpoint.data_before_answers
            readable = self._stay_awake(min(end, now + AWAKE_NS))
        readable = readable or self._wait(max(0, end - time.monotonic_ns()))
        self.readable = self._bits(readable)

    def _ask_python_fds(self) -> int:
        """Who never sleeps asks Python's descriptors when `look_at` has come."""
        poll = select.poll()
        for fd in self._others:
            poll.register(fd, select.POLLIN)
        return self._bits([fd for fd, _ in poll.poll(0)])

    def _bits(self, readable: list[int]) -> int:
        return sum(1 << place for place, fd in enumerate(self._others) if fd in readable)

    def _stay_awake(self, until: int) -> list[int]:
        while not (readable := self._wait(0)) and time.monotonic_ns() < until:
            # The peer may want this very processor.
            os.sched_yield()
        return readable

    def _wait(self, ns: int) -> list[int]:
        # select waits to the microsecond but takes few descriptors; poll takes any but waits to the millisecond.
        if max(self._fds) < _SELECT_LIMIT:
            return select.select(self._fds, (), (), ns * _NS)[0]
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        return [fd for fd, _ in poll.poll(ns * 1e-6)]


_SELECT_LIMIT = 1024  # FD_SETSIZE
