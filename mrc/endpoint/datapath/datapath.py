# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What an endpoint does with packets: takes them in, runs timers, lets its QPs send in turn.

Nothing here needs Python, but for what it hands over: work that has ended, and what belongs to no QP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.qp_datapath import QpDatapath
from mrc.endpoint.datapath.qps import QpTable, Scheduler
from mrc.endpoint.datapath.receive import Intake, PacketChecks
from mrc.endpoint.doorbells import Doorbells
from mrc.endpoint.node.operations import EndpointOperations
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.flags import Away
from mrc.endpoint.parts.numbers import Heap
from mrc.errors import CallerError, MrcError
from mrc.wire import octets
from mrc.wire.compiled import public, python, with_gil
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.node.operation_answers import OperationAnswers
    from mrc.endpoint.parts.flags import Flag

_NONE = -1


def went_back(now: int, earlier: int) -> python[CallerError]:
    """What is wrong where an endpoint is handed an earlier time than before."""
    return CallerError(f"now went back from {now} to {earlier} ns: the time of an endpoint never does")


class Datapath:
    """The packets of one endpoint, in and out. `now` is the time of the entry under way, ns.

    `data_before_answers` counts how often a single data packet was sent before answers that were due: in a ping-pong
    the peer waits for data. `away` is up while Python may not be called: what needs Python waits. `operations_wait` is
    up while endpoint operations are to be sent.

    Nothing is done at an earlier time than before, and no timer may be due when it has just run. Both are errors, which
    `away` keeps until Python raises them.
    """

    def __init__(
        self, checks: PacketChecks, operations: EndpointOperations, counters: Counters, fair_share: int
    ) -> None:
        """A QP sends up to `fair_share` packets while others wait for their turn."""
        self.qps = QpTable()
        self.scheduler = Scheduler(self.qps)
        self.away = Away()
        self.intake = Intake(checks, self.qps, operations, counters, self.away)
        self._operations = operations
        self._operation_answers: OperationAnswers = operations.answers
        self.operations_wait: Flag = operations.pending
        self._fair_share = fair_share
        self._timers = Heap()  # deadlines and QPNs
        self.data_before_answers = 0
        self.now: public[int] = 0
        # A ring of the slots of QPs that have work which has ended: `done` of them from `_first_done` on.
        self.done = self._first_done = 0
        self._done = octets.words(0)
        self._is_done = octets.words(0)
        self._done_room = 0
        # Of a program that posts into rings, if this endpoint works for one.
        self.doorbells: public[Doorbells | None] = None

    def __dealloc__(self) -> None:
        octets.free_words(self._done)
        octets.free_words(self._is_done)

    # ------------------------------------------------------------------ QPs

    def add(self, qp: QpDatapath) -> python[None]:
        """There is another QP."""
        # Before there is more room in the ring.
        waiting = self._all_done()
        self.qps.add(qp)
        self.scheduler.join(qp.slot)
        self.intake.make_room(self.qps.room)
        if self._done_room < self.qps.room:
            octets.free_words(self._done)
            self._done = octets.words(self.qps.room)
            self._is_done = octets.longer_words(self._is_done, self._done_room, self.qps.room)
            self._done_room = self.qps.room
        self._keep_done(waiting)

    def remove(self, qp: QpDatapath) -> python[None]:
        """A QP is gone."""
        self.scheduler.leave(qp.slot)
        self._keep_done([slot for slot in self._all_done() if slot != qp.slot])
        self._is_done[qp.slot] = 0
        self.qps.remove(qp)

    def _all_done(self) -> python[list[int]]:
        return [self._done[(self._first_done + place) % self.qps.room] for place in range(self.done)]

    def _keep_done(self, slots: list[int]) -> python[None]:
        self._first_done, self.done = 0, len(slots)
        for place, slot in enumerate(slots):
            self._done[place] = slot

    def take_done(self) -> int:
        """The slot of a QP that has work which has ended, each once, in the order they had some; -1 without any."""
        if not self.done:
            return _NONE
        slot = self._done[self._first_done]
        self._first_done = (self._first_done + 1) % self.qps.room
        self.done -= 1
        self._is_done[slot] = 0
        return slot

    def after_event(self, slot: int) -> None:
        """Something happened to this QP that may let it send, or has ended work of its own, or was its end."""
        if not self.qps.holds(slot):
            return
        self.scheduler.on_event(slot)
        self.schedule(slot)
        if not self._is_done[slot] and self.qps.at[slot].completions.count:
            self._is_done[slot] = 1
            self._done[(self._first_done + self.done) % self.qps.room] = slot
            self.done += 1

    def _take_posted(self) -> None:
        """Take what a program posted on QPs that have rings."""
        if self.doorbells is None or not self.doorbells.take():
            return
        qpn = self.doorbells.next(0)
        while qpn != _NONE:
            slot = self.qps.find(qpn)
            if slot != _NONE:
                self.qps.at[slot].take_posted()
                if self.qps.holds(slot):
                    self.scheduler.wake(slot)
                    self.schedule(slot)
            qpn = self.doorbells.next(0)

    # ------------------------------------------------------------------ packets

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Take packets one by one, in order of arrival. What is wrong is dropped and counted."""
        self.qps.begin()
        try:
            if now < self.now:
                self._went_back(now)
            else:
                self.now = now
                if self.doorbells is not None:
                    # A receive that is posted is there for what has arrived.
                    self._take_posted()
                self.intake.receive(batch, now)
                for place in range(self.intake.touched):
                    self.after_event(self.intake.slots[place])
        finally:
            self.qps.end()

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        """Fill `batch` with what may leave now, QP by QP in turn, and seal it. Returns the number of packets."""
        start = batch.count
        self.qps.begin()
        try:
            if now < self.now:
                self._went_back(now)
            else:
                self.now = now
                if self.doorbells is not None:
                    self._take_posted()
                if self._operation_answers.waiting:
                    self._operation_answers.transmit(batch, now)
                if self.operations_wait.up:
                    if self.away.up:
                        self.away.urgent = True
                    else:
                        self._operate(batch, now)
                while batch.count < batch.capacity and self.scheduler.ready and self._turn(batch, now):
                    pass
                batch.seal(start)
        finally:
            self.qps.end()
        return batch.count - start

    def _turn(self, batch: TransmitBatch, now: int) -> bool:
        """Let the QP whose turn it is send; there is one. Returns whether the next may go on in this batch."""
        slot = self.scheduler.next()
        free = batch.capacity - batch.count
        others_wait = self.scheduler.ready > 0
        most = min(self._fair_share, free) if others_wait else free
        data_before = self.qps.at[slot].counters.data_packets_sent
        sent = self.qps.at[slot].transmit(batch, most, now, others_wait)
        if self.qps.holds(slot):
            self.scheduler.after_turn(slot, sent, self.qps.at[slot].counters.data_packets_sent > data_before)
            self.schedule(slot)
        if self.qps.at[slot].answers_wait:
            self.data_before_answers += 1
            return False
        return True

    def _operate(self, batch: TransmitBatch, now: int) -> with_gil[None]:
        try:
            self._operations.transmit(batch, now)
        except BaseException as error:
            self.away.fail(error)

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int:
        """When `on_timer` should be called next, ns, or FOREVER. It may come early: a call too soon does nothing."""
        while self._timers.count:
            slot = self.qps.find(self._timers.value())
            if slot != _NONE and self.qps.at[slot].timer_at == self._timers.first():
                return self._timers.first()
            self._timers.pop()
        return FOREVER

    def first_timer(self) -> int:
        """No timer is due before this, ns; FOREVER where none runs. `next_deadline` says when one really is."""
        return self._timers.first()

    def on_timer(self, now: int) -> None:
        """Run the timers of QPs that are due."""
        self.qps.begin()
        try:
            if now < self.now:
                self._went_back(now)
            else:
                self.now = now
                while self.next_deadline() <= now and self._run_timer(now):
                    pass
        finally:
            self.qps.end()

    def _run_timer(self, now: int) -> bool:
        """Run the timers of the QP that wanted it first. Returns whether the next may go on."""
        slot = self.qps.find(self._timers.value())
        self._timers.pop()
        self.qps.at[slot].timer_at = FOREVER
        if self.qps.at[slot].next_deadline() > now:
            # What it was set for has moved on since, as it does with every packet.
            self.schedule(slot)
            return True
        self.qps.at[slot].on_timer(now)
        if self.qps.holds(slot) and self.qps.at[slot].next_deadline() <= now:
            # It would run for ever, and no signal would end it.
            self._stuck(slot)
            return False
        self.after_event(slot)
        return True

    def _stuck(self, slot: int) -> with_gil[None]:
        qpn = self.qps.at[slot].qpn
        why = f"a timer of QP {qpn:#08x} is due at {self.now} ns, when it has just run: a fault of the endpoint"
        self.away.fail(MrcError(why))

    def _went_back(self, now: int) -> with_gil[None]:
        self.away.fail(went_back(self.now, now))

    def schedule(self, slot: int) -> None:
        """See that this QP's timers run in time."""
        deadline = self.qps.at[slot].next_deadline()
        if deadline < self.qps.at[slot].timer_at:
            self.qps.at[slot].timer_at = deadline
            self._timers.push(deadline, self.qps.at[slot].qpn)
