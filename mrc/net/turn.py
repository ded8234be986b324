# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The loop's turn: what has arrived is taken in, timers run, what may leave is sent, and it sleeps. It needs no Python.

It goes on by itself until Python is wanted: work has ended, a descriptor of Python's is readable, or it is time to look
after something. While Python does not come, because it computes or is stopped, another thread stands in (`stand_in`).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.datapath import Datapath
from mrc.endpoint.doorbells import Doorbells
from mrc.endpoint.parts import interpreter
from mrc.endpoint.parts.flags import Flag
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.errors import SystemRefused
from mrc.net import system
from mrc.net.endpoint_lock import SHORTLY_NS, EndpointLock
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.ports import PACKET_BUFFER_BYTES
from mrc.net.system import MOST_FDS
from mrc.wire.compiled import i64s, may_raise, public, python, unsigned
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    pass

# In a stream of batches this short a pause lets the next one grow: a wake-up for two packets costs as much as for
# twenty. Fewer than so many in a row are no stream but questions and answers, which want no pause.
SHORT_BATCH = 16
STREAM = 16
SHORT_BATCH_PAUSE_NS = 50_000
# Timers wait until all that has arrived is read, for so many turns at the most: what a late process finds waiting for
# it is not lost.
MOST_TURNS_BEFORE_TIMERS = 64
# Who answers a write with a write is about to be answered again: to stay awake for so long saves the time of waking.
AWAKE_NS = 200_000
# In a burst of posts the endpoint dozes for so long before it sleeps: each post would wake it.
DOZE_NS = 50_000
# Another thread stands in for Python when it is away for so long; if it was away before, almost at once.
PATIENCE_NS = 1_000_000
# How often that thread looks. After so many looks at which nothing had changed it sleeps until it is called.
LOOK_NS = 1_000_000
LOOKS = 20
LONGEST_SLEEP_NS = 100_000_000

T = TypeVar("T")


class Turn:
    """One endpoint's, over its ports.

    Python wants to be asked next at `look_at` while there is something to do, at `sleep_until` while there is not, ns,
    and at once while `wanted` is up, which any thread may set. The endpoint is its own while it turns; between `begin`
    and `end` it belongs to who called these.
    """

    _fds: i64s
    _python_fds: i64s

    def __init__(
        self,
        datapath: Datapath,
        receiver: BatchReceiver,
        sender: BatchSender,
        batch: TransmitBatch,
        budget: ReceiveBudget,
        counters: Counters,
    ) -> None:
        self._datapath = datapath
        self._away = datapath.away
        self._receiver = receiver
        self._sender = sender
        self._batch = batch
        self._budget = budget
        self._counters = counters
        self._fds = self._python_fds = column(0)
        self._fd_count = self._ports = 0
        self.look_at: public[int] = 0
        self.sleep_until: public[int] = 0
        self.wanted = Flag()
        # Which of Python's descriptors were readable when a sleep ended, or when `look_at` had come, a bit for each.
        self.readable = 0
        self._before_timers = 0
        self._short_batches = 0  # in a row
        self._data_before_answers = 0
        self._arrived = 0  # packets received and not taken in
        self._sends_first = False
        self._lock = EndpointLock()
        # The thread that has the endpoint between two turns; 0: none.
        self.holder = 0
        # What ends a sleep over the ports, and whether anybody sleeps so.
        self._bell: int = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asleep = False
        # Whether Python is in a turn, when it left the last one (ns), and whether it was away for long before this one.
        self._in_turn = self._was_away = False
        self._left_at = 0
        # Whether there is a thread that stands in, whether it is to end, and whether it sleeps until it is called.
        self._stands_in = self._over = self._watcher_sleeps = False
        self._call: int = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._call_fds: i64s = column(1, self._call)
        self._served_fds: i64s = column(0)

    def close(self) -> python[None]:
        """End the turn: no thread turns any more."""
        os.close(self._bell)
        os.close(self._call)

    def watch(self, ports: list[int], others: list[int]) -> python[None]:
        """Sleep until one of these descriptors is readable: those of the ports, or Python's.

        Raises SystemRefused for more of them than `system.wait` can look at.
        """
        if len(ports) + 1 + len(others) > MOST_FDS:
            raise SystemRefused(f"{len(ports)} ports and {len(others)} other descriptors: {MOST_FDS - 1} are the most")
        self._fds, self._python_fds = (
            memoryview(array("q", [*ports, self._bell, *others])),
            memoryview(array("q", others)),
        )
        self._fd_count, self._ports = len(self._fds), len(ports)

    # ------------------------------------------------------------------ whose the endpoint is

    def have_doorbells(self, address: unsigned) -> may_raise[None]:
        """Work for a program that posts into rings in its memory; `address` is where its doorbells are."""
        self._datapath.doorbells = Doorbells(address, self._bell)

    def begin(self) -> may_raise[None]:
        """Have the endpoint until `end`. A turn that is under way ends before."""
        self._lock.begin()

    def end(self) -> may_raise[None]:
        """It is the turn's again. Who sleeps wakes up and looks what there is to do."""
        asleep: bool = self._asleep
        self._lock.give_back()
        if asleep:
            system.ring(self._bell)

    def inside(self, action: Callable[[], T], thread: int) -> may_raise[T]:
        """Have the endpoint while `action` runs; return what it returns. `thread`: the calling one, `holder` meanwhile.

        Compiled, no signal handler runs between `begin` and the `try`, nor in the `finally`: an exception that one
        raises finds the endpoint given back.
        """
        self.begin()
        try:
            self.holder = thread
            return action()
        finally:
            self.holder = 0
            self.end()

    def ring(self, bell: int) -> may_raise[None]:
        """Make an eventfd readable without giving up the interpreter: for who has the endpoint."""
        system.ring(bell)

    # ------------------------------------------------------------------ turns

    def run(self, until: int, ask_first: bool) -> may_raise[None]:
        """Turn until Python is wanted, or until the clock says `until`, ns; with 0 once.

        `ask_first`: Python is asked whenever packets have arrived, before anything is sent: what is posted then goes
        ahead of the answers.
        """
        if self._away.waits or self._away.urgent:
            self._catch_up()
        state: int = interpreter.let_go()
        self._come()
        self._run(until, ask_first)
        self._leave()
        self._ask_python_fds()
        interpreter.take_back(state)

    def _catch_up(self) -> may_raise[None]:
        """A turn while Python is there, for what waits for it: the first packets that come have it done."""
        self.begin()
        self._away.up = False
        if not self._arrived:
            self._arrived = self._receiver.receive()
        if self._take_in() > 0:
            self._away.waits = False
        self._transmit(system.clock())
        self._away.urgent = False
        self._away.up = True
        self.end()

    def _come(self) -> None:
        self._in_turn = True
        self._was_away = self._left_at > 0 and system.clock() - self._left_at > PATIENCE_NS
        self._lock.hold()
        self._asleep = False

    def _leave(self) -> None:
        self._left_at = system.clock()
        self._in_turn = False
        self._lock.give_back()
        if self._stands_in and (self._was_away or self._watcher_sleeps):
            system.ring(self._call)

    def _run(self, until: int, ask_first: bool) -> None:
        self.readable = 0
        while True:
            if self._lock.is_asked_for():
                self._lock.give_back()
                self._lock.let_others()
                self._lock.hold()
            received = 0
            if not self._sends_first:
                if not self._arrived:
                    self._arrived = self._receiver.receive()
                if self._arrived and self.wanted.up:
                    # A receive posted before the peer sent must be there when it arrives.
                    return
                received = self._take_in()
                if ask_first and (received or self._datapath.done):
                    self._sends_first = True
                    return
            self._sends_first = False
            now = system.clock()
            sent = self._transmit(now)
            self._tell()
            if self._is_wanted() or now >= self.look_at or now >= until:
                return
            if sent == self._batch.capacity:
                continue
            if not received:
                self._short_batches = 0
                if not sent and not self._sleep(until):
                    return
            elif received < SHORT_BATCH:
                self._short_batches += 1
                # Who sends more than it was sent has data of its own and no time to lose.
                if self._short_batches >= STREAM and sent <= received + 1:
                    system.sleep(SHORT_BATCH_PAUSE_NS)

    def _is_wanted(self) -> bool:
        return (
            self.wanted.up
            or self._away.urgent
            or self._datapath.done > 0
            or self._sender.refused_length
            or self._sender.error != 0
            or self._receiver.error != 0
        )

    def _ask_python_fds(self) -> None:
        """Who never sleeps asks Python's descriptors when `look_at` has come. Python need not ask them itself: with
        each call to the system it gives up the interpreter, and who computes keeps that for 5 ms."""
        if self.readable == 0 and system.clock() >= self.look_at:
            self.readable = max(0, system.wait(self._python_fds, len(self._python_fds), 0))

    def _take_in(self) -> int:
        """Take in what has arrived and run the timers that are due. Returns how many packets came."""
        received, self._arrived = self._arrived, 0
        if received:
            self._tell_backlog()
            self._datapath.receive(self._receiver.batch, system.clock())
        now = system.clock()
        if self._datapath.next_deadline() <= now and self._timers_may_run():
            self._datapath.on_timer(now)
        return received

    def _tell_backlog(self) -> None:
        waiting = 0
        if self._receiver.more:
            for place in range(self._ports):
                waiting += system.waiting(self._fds[place])
        self._budget.on_backlog(waiting // PACKET_BUFFER_BYTES)

    def _timers_may_run(self) -> bool:
        """Whether what has arrived is read, or has been read for long enough."""
        self._before_timers = self._before_timers + 1 if self._receiver.more else 0
        if self._before_timers > MOST_TURNS_BEFORE_TIMERS:
            self._before_timers = 0
        return self._before_timers == 0

    def _transmit(self, now: int) -> int:
        count = self._datapath.transmit(self._batch, now)
        if count:
            self._counters.not_sent_by_system += self._sender.send()
            self._batch.count = 0
        return count

    def _sleep(self, until: int) -> bool:
        """Sleep until there is something to do. Returns whether it is nothing of Python's."""
        end = min(until, self.sleep_until, self._datapath.next_deadline())
        self._asleep = True
        self._lock.give_back()
        readable = self._wait(end)
        self._lock.hold()
        self._asleep = False
        if readable < 0:
            # A signal: its handler wants to run.
            return False
        if readable >> self._ports & 1:
            system.hear(self._bell)
        self.readable = readable >> self._ports + 1
        return self.readable == 0

    def _wait(self, end: int) -> int:
        readable = 0
        if self._datapath.data_before_answers != self._data_before_answers:
            self._data_before_answers = self._datapath.data_before_answers
            readable = self._stay_awake(min(end, system.clock() + AWAKE_NS))
        if readable or self._datapath.doorbells is None:
            return readable or self._wait_for(end - system.clock())
        if self._datapath.doorbells.dozes():
            readable = self._wait_for(min(DOZE_NS, end - system.clock()))
            if not readable:
                self._datapath.doorbells.overslept()
        if not readable and self._datapath.doorbells.sleeps():
            readable = self._wait_for(end - system.clock())
        self._datapath.doorbells.awake()
        return readable

    def _wait_for(self, ns: int) -> int:
        return system.wait(self._fds, self._fd_count, max(0, ns))

    def _has_rung(self) -> bool:
        return self._datapath.doorbells is not None and self._datapath.doorbells.has_rung()

    def _tell(self) -> None:
        """Ring the event fds of completion queues that a program waits for."""
        if self._datapath.doorbells is None:
            return
        fd = self._datapath.doorbells.next_told()
        while fd >= 0:
            system.ring(fd)
            fd = self._datapath.doorbells.next_told()

    def _stay_awake(self, until: int) -> int:
        readable = system.wait(self._fds, self._fd_count, 0)
        while readable == 0 and not self._has_rung() and system.clock() < until:
            # The peer may want this very processor.
            system.yield_processor()
            readable = system.wait(self._fds, self._fd_count, 0)
        return readable

    # ------------------------------------------------------------------ while Python is away

    def prepare_stand_in(self) -> python[None]:
        """A thread is about to `stand_in`: the ports are watched."""
        self._served_fds = column(self._ports + 1)
        for place in range(self._ports + 1):
            self._served_fds[place] = self._fds[place]
        self._datapath.intake.aside.make_room()
        self._away.up = True
        self._stands_in = True

    def stand_in(self) -> may_raise[None]:
        """Turn while Python is away, until `end_stand_in`: for a thread of its own. It waits for the interpreter only
        where an event is to be reported."""
        state: int = interpreter.let_go()
        self._stand_in()
        interpreter.take_back(state)

    def end_stand_in(self) -> python[None]:
        """The thread that stands in is to end."""
        self._over = True
        system.ring(self._call)

    def _stand_in(self) -> None:
        seen, looks = 0, 0
        while not self._over:
            left = self._left_at
            if self._in_turn or not left:
                looks = looks + 1 if seen == left else 0
                seen = left
                self._watch_over(looks >= LOOKS)
                continue
            patience = left + (SHORTLY_NS if self._was_away else PATIENCE_NS) - system.clock()
            if patience > 0:
                system.sleep(patience)
            elif self._lock.is_asked_for():
                self._lock.let_others()
            elif not self._lock.try_hold():
                system.sleep(SHORTLY_NS)
            else:
                self._serve()

    def _watch_over(self, quiet: bool) -> None:
        """Python is there. Wait until it is time to look again, or another thread calls."""
        self._watcher_sleeps = quiet
        if system.wait(self._call_fds, 1, LONGEST_SLEEP_NS if quiet else LOOK_NS):
            system.hear(self._call)
        self._watcher_sleeps = False

    def _serve(self) -> None:
        """Turn until there is nothing to do or another thread wants the endpoint; then sleep over the ports."""
        busy = True
        while busy and not self._in_turn and not self._lock.is_asked_for():
            busy = self._turn_alone()
        if busy:
            self._lock.give_back()
            return
        sleep = min(LOOK_NS, max(0, self._datapath.next_deadline() - system.clock()))
        if self._sender.error or self._receiver.error:
            # Python has to see to it.
            sleep = LOOK_NS
        if not self._in_turn:
            self._asleep = True
        self._lock.give_back()
        if self._datapath.doorbells is not None and not self._datapath.doorbells.sleeps():
            return
        if system.wait(self._served_fds, self._ports + 1, sleep) >> self._ports & 1:
            system.hear(self._bell)

    def _turn_alone(self) -> bool:
        """A turn of which Python hears later. Returns whether there was anything to do."""
        if self._sender.error or self._receiver.error:
            return False
        if not self._arrived:
            self._arrived = self._receiver.receive()
        received = self._take_in()
        sent = self._transmit(system.clock())
        self._tell()
        return received > 0 or sent > 0
