"""The loop's turn: what has arrived is taken in, timers run, what may leave is sent, and it sleeps. It needs no Python.

It goes on by itself until Python is wanted: work has ended, a descriptor of Python's is readable, or it is time to look
after something.
"""

from __future__ import annotations

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath import Datapath
from mrc.endpoint.deadlines import FOREVER
from mrc.endpoint.flags import Flag
from mrc.endpoint.receive_budget import ReceiveBudget
from mrc.net import system
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.ports import PACKET_BUFFER_BYTES
from mrc.wire.transmit_batch import TransmitBatch

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

_SHORT_BATCH, _STREAM, _PAUSE_NS = SHORT_BATCH, STREAM, SHORT_BATCH_PAUSE_NS
_MOST_BEFORE_TIMERS, _AWAKE_NS, _FOREVER = MOST_TURNS_BEFORE_TIMERS, AWAKE_NS, FOREVER
_PACKET_BUFFER_BYTES = PACKET_BUFFER_BYTES


class Turn:
    """One endpoint's, over its ports.

    Python wants to be asked next at `look_at` while there is something to do, at `sleep_until` while there is not, ns,
    and at once while `wanted` is up, which any thread may set.
    """

    __slots__ = (
        "_arrived",
        "_awake_for",
        "_batch",
        "_before_timers",
        "_budget",
        "_counters",
        "_datapath",
        "_fd_count",
        "_fds",
        "_ports",
        "_receiver",
        "_sender",
        "_sends_first",
        "_short_batches",
        "look_at",
        "readable",
        "sleep_until",
        "wanted",
    )

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
        self._receiver = receiver
        self._sender = sender
        self._batch = batch
        self._budget = budget
        self._counters = counters
        self._fds = memoryview(bytearray()).cast("q")
        self._fd_count = self._ports = 0
        self.look_at = self.sleep_until = 0
        self.wanted = Flag()
        # Which of Python's descriptors were readable when a sleep ended, a bit for each.
        self.readable = 0
        self._before_timers = 0
        self._short_batches = 0  # in a row
        self._awake_for = 0
        self._arrived = 0  # packets received and not taken in
        self._sends_first = False

    def watch(self, ports: list[int], others: list[int]) -> None:
        """Sleep until one of these descriptors is readable: those of the ports, or Python's."""
        fds = [*ports, *others]
        self._fds = memoryview(bytearray(8 * len(fds))).cast("q")
        for place, fd in enumerate(fds):
            self._fds[place] = fd
        self._fd_count, self._ports = len(fds), len(ports)

    def run(self, until: int, ask_first: bool) -> None:
        """Turn until Python is wanted, or until the clock says `until`, ns; with 0 once.

        `ask_first`: Python is asked whenever packets have arrived, before anything is sent: what is posted then goes
        ahead of the answers.
        """
        state = system.let_go()
        self._run(until, ask_first)
        system.take_back(state)

    def _run(self, until: int, ask_first: bool) -> None:
        self.readable = 0
        while True:
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
            if self._is_wanted() or now >= self.look_at or now >= until:
                return
            if sent == self._batch.capacity:
                continue
            if not received:
                self._short_batches = 0
                if not sent and not self._sleep(until):
                    return
            elif received < _SHORT_BATCH:
                self._short_batches += 1
                # Who sends more than it was sent has data of its own and no time to lose.
                if self._short_batches >= _STREAM and sent <= received + 1:
                    system.sleep(_PAUSE_NS)

    def _is_wanted(self) -> bool:
        return (
            self.wanted.up
            or self._datapath.done > 0
            or self._sender.refused_length
            or self._sender.error != 0
            or self._receiver.error != 0
        )

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
        self._budget.on_backlog(waiting // _PACKET_BUFFER_BYTES)

    def _timers_may_run(self) -> bool:
        """Whether what has arrived is read, or has been read for long enough."""
        self._before_timers = self._before_timers + 1 if self._receiver.more else 0
        if self._before_timers > _MOST_BEFORE_TIMERS:
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
        now = system.clock()
        end = min(until, self.sleep_until, self._datapath.next_deadline())
        readable = 0
        if self._datapath.went_ahead != self._awake_for:
            self._awake_for = self._datapath.went_ahead
            readable = self._stay_awake(min(end, now + _AWAKE_NS))
        if not readable:
            readable = system.wait(self._fds, self._fd_count, max(0, end - system.clock()))
        if readable < 0:
            # A signal: its handler wants to run.
            return False
        self.readable = readable >> self._ports
        return self.readable == 0

    def _stay_awake(self, until: int) -> int:
        readable = system.wait(self._fds, self._fd_count, 0)
        while readable == 0 and system.clock() < until:
            # The peer may want this very processor.
            system.yield_processor()
            readable = system.wait(self._fds, self._fd_count, 0)
        return readable
