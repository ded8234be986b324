"""The loop that gives an endpoint sockets and a clock.

One thread runs it; others reach in through `call`. A turn of the loop takes what has arrived, runs the timers that
are due and sends what may leave, batch by batch; with nothing to do it sleeps until a packet, a timer or a call.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from mrc.endpoint.receive_budget import ReceiveBudget
from mrc.errors import MrcError
from mrc.net.driven import Driven
from mrc.net.flood_filter import FloodFilter
from mrc.net.link_events import LinkWatch
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.port_room import PortRoom
from mrc.net.ports import PACKET_BUFFER_BYTES, Port, waiting_in
from mrc.wire.transmit_batch import TransmitBatch

T = TypeVar("T")

RECEIVE_ROWS = 128  # for each port
# In a stream of batches this short a pause lets the next one grow: a wake-up for two packets costs as much as for
# twenty. Fewer than so many in a row are no stream but questions and answers, which want no pause.
SHORT_BATCH = 16
STREAM = 16
SHORT_BATCH_PAUSE_S = 50e-6
# A busy loop looks for link events this often; one that sleeps is woken by them.
LINK_INTERVAL_NS = 500_000
# Timers wait until all that has arrived is read, for so many turns at the most: what a late process finds waiting for
# it is not lost.
MOST_TURNS_BEFORE_TIMERS = 64
_LONGEST_SLEEP_S = 0.25
# Who answers a write with a write is about to be answered again: to stay awake for so long saves the time of waking.
AWAKE_NS = 200_000
_NS = 1e-9
_SELECT_LIMIT = 1024  # FD_SETSIZE


def _never() -> bool:
    return False


class Attendant(Protocol):
    """Something small that is looked after between turns: it never blocks."""

    sources: list[int]  # file descriptors that wake a loop that sleeps

    def attend(self) -> int:
        """Do what there is to do. Returns after how many ns a loop that does not sleep comes back."""
        ...

    def patience_s(self) -> float | None:
        """How long a loop with nothing else to do may sleep without coming back, s; None: until a source wakes it."""
        ...

    def close(self) -> None: ...


class Driver:
    """Runs one endpoint over its ports. Use as a context manager; `close` gives the sockets back."""

    def __init__(self, endpoint: Driven, ports: Sequence[Port], mtu: int) -> None:
        """`ports` are one node's, at least one; `mtu` is the longest packet in bytes that is to be received whole."""
        self.endpoint = endpoint
        self.ports = ports
        room = (mtu + 63) & ~63
        self._receiver = BatchReceiver(ports, RECEIVE_ROWS * len(ports), room)
        self._batch = TransmitBatch(endpoint.config.transmit_batch)
        self._sender = BatchSender(ports, self._batch)
        self._room = PortRoom(endpoint, ports)
        self._links = LinkWatch({port.port: port.interface for port in ports})
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._calls: deque[tuple[Callable[[], Any], Future[Any] | None]] = deque()
        self._sources = [*(port.receiver.fileno() for port in ports), self._links.fileno(), self._wake]
        # The thread that runs the loop. While there is none, whoever holds the lock may touch the endpoint.
        self._owner: int | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._interrupted = False
        self._links_due = 0
        self.attendant: Attendant | None = None
        # Keeps a flood of what the endpoint would refuse away from it.
        self.flood_filter: FloodFilter | None = None
        # Is kept informed of what waits unread.
        self.receive_budget: ReceiveBudget | None = None
        self._attendant_due = 0
        self._turns_before_timers = 0
        self._short_batches = 0  # in a row
        self._went_ahead = 0

    # ------------------------------------------------------------------ reaching in

    def call(self, action: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `action` in the loop's thread, between two of its turns, and return what it returns.

        With no loop running it is run here and now. Raises MrcError when the driver is closed, or when nothing happens
        for `timeout_s`; then `action` is never run.
        """
        if threading.get_ident() == self._owner:
            # What was submitted before comes before it, with a loop or without one.
            self._run_calls()
            return action()
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise MrcError("the endpoint is shut down")
            if self._owner is None:
                self._run_calls()
                return action()
            self._calls.append((action, future))
            os.eventfd_write(self._wake, 1)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.cancel():
                return future.result()
            raise MrcError(f"the endpoint did not answer within {timeout_s:.0f} s") from None

    def submit(self, action: Callable[[], None]) -> None:
        """Like `call`, without waiting for it. `action` raises nothing.

        From the loop's own thread it is done before the loop sends, with no loop running in the next turn: many writes
        posted there become one look at all of them.
        """
        if threading.get_ident() == self._owner:
            self._calls.append((action, None))
            return
        with self._lock:
            if self._closed:
                raise MrcError("the endpoint is shut down")
            self._calls.append((action, None))
            if self._owner is not None:
                os.eventfd_write(self._wake, 1)

    @property
    def owner(self) -> int | None:
        """The thread that runs the loop."""
        return self._owner

    def wake(self) -> None:
        """End the loop's sleep, from any thread or a signal handler."""
        if not self._closed:
            with contextlib.suppress(OSError):
                os.eventfd_write(self._wake, 1)

    def interrupt(self) -> None:
        """End the loop with KeyboardInterrupt at its next turn. For signal handlers: an exception raised in one can
        vanish inside a library that the signal happened to interrupt."""
        self._interrupted = True
        self.wake()

    # ------------------------------------------------------------------ the loop

    def run(self, until: Callable[[], bool], poll_s: float = _LONGEST_SLEEP_S, *, before_sending: bool = False) -> None:
        """Turn until `until()` holds; it is asked between turns and at least every `poll_s` seconds.

        With `before_sending` it is asked in every turn between what arrives and what leaves: writes posted there go
        ahead of the answers. It must not destroy a QP then, whose last answer would never leave.
        """
        asked = until if before_sending else _never
        with self._lock:
            self._owner = threading.get_ident()
        try:
            while before_sending or not until():
                if self.turn(poll_s, asked):
                    break
        finally:
            with self._lock:
                self._run_calls()
                self._owner = None

    def poll(self) -> None:
        """One turn without sleep, for who looks again at once. Like `run`, for one thread at a time."""
        with self._lock:
            self._owner = threading.get_ident()
        try:
            self.turn(0.0, _never)
        finally:
            with self._lock:
                self._run_calls()
                self._owner = None

    def turn(self, longest_sleep_s: float = _LONGEST_SLEEP_S, until: Callable[[], bool] = _never) -> bool:
        """One turn: receive, timers, `until`, send; then sleep if there was nothing to do. What `until` says."""
        if self._interrupted:
            raise KeyboardInterrupt
        endpoint, clock = self.endpoint, time.monotonic_ns
        received = 0
        arrived = self._receiver.receive()
        # Before what has arrived is looked at: a receive posted before the peer sent must be there when it arrives.
        if self._calls:
            self._run_calls()
        if arrived is not None:
            received = arrived.count
            self._look_at_backlog()
            endpoint.receive(arrived, clock())
        now = clock()
        if now >= self._links_due:
            self._links_due = now + LINK_INTERVAL_NS
            if self.flood_filter is not None:
                self.flood_filter.look(now)
            for change in self._links.changes():
                if change.up is not None:
                    endpoint.set_port(change.port, change.up, now)
                if change.mtu is not None:
                    self._room.on_mtu(change.port, change.mtu, now)
            self._room.look(now)
        deadline = endpoint.next_deadline()
        if deadline is not None and deadline <= now and self._timers_may_run():
            endpoint.on_timer(now)
        if self.attendant is not None and now >= self._attendant_due:
            self._attendant_due = now + self.attendant.attend()
        over = until()
        if self._calls:
            self._run_calls()
        sent = self._transmit(clock())
        if over or sent == self._batch.capacity:
            return over
        if not received:
            self._short_batches = 0
            if not sent and longest_sleep_s > 0:
                self._sleep(longest_sleep_s)
        elif received < SHORT_BATCH:
            self._short_batches += 1
            # Who sends more than it was sent has data of its own and no time to lose.
            if self._short_batches >= STREAM and sent <= received + 1:
                time.sleep(SHORT_BATCH_PAUSE_S)
        return False

    def _look_at_backlog(self) -> None:
        budget = self.receive_budget
        if budget is not None:
            waiting = sum(waiting_in(port.receiver) for port in self.ports) if self._receiver.more else 0
            budget.on_backlog(waiting // PACKET_BUFFER_BYTES)

    def _timers_may_run(self) -> bool:
        """Whether what has arrived is read, or has been read for long enough."""
        self._turns_before_timers = self._turns_before_timers + 1 if self._receiver.more else 0
        if self._turns_before_timers > MOST_TURNS_BEFORE_TIMERS:
            self._turns_before_timers = 0
        return self._turns_before_timers == 0

    def _transmit(self, now: int) -> int:
        batch = self._batch
        count = self.endpoint.transmit(batch, now)
        if count:
            self.endpoint.counters.not_sent_by_system += self._sender.send()
            if self._sender.too_long:
                self._room.on_refused(self._sender.too_long, now)
                self._sender.too_long.clear()
            batch.clear()
        return count

    def _sleep(self, longest_s: float) -> None:
        if self._calls:
            return
        deadline = self.endpoint.next_deadline()
        timeout = longest_s
        if deadline is not None:
            timeout = min(timeout, max(0.0, (deadline - time.monotonic_ns()) * _NS))
        if self.attendant is not None and (patience := self.attendant.patience_s()) is not None:
            self._attendant_due = 0
            timeout = min(timeout, patience)
        readable: Sequence[int] = ()
        if self.endpoint.went_ahead != self._went_ahead:
            self._went_ahead = self.endpoint.went_ahead
            readable = self._stay_awake(min(timeout, AWAKE_NS * _NS))
        readable = readable or self._readable(timeout)
        if self._links.fileno() in readable:
            self._links_due = 0
        if self.attendant is not None and not set(readable).isdisjoint(self.attendant.sources):
            self._attendant_due = 0
        if self._wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            self._run_calls()

    def _stay_awake(self, longest_s: float) -> Sequence[int]:
        until = time.monotonic() + longest_s
        while not (readable := self._readable(0.0)) and time.monotonic() < until:
            # The peer may want this very processor.
            os.sched_yield()
        return readable

    def _readable(self, timeout_s: float) -> Sequence[int]:
        # select tells microseconds apart but knows no descriptors beyond its set; poll the other way round.
        sources = self._sources if self.attendant is None else [*self._sources, *self.attendant.sources]
        if max(sources) < _SELECT_LIMIT:
            return select.select(sources, (), (), timeout_s)[0]
        poll = select.poll()
        for source in sources:
            poll.register(source, select.POLLIN)
        return [source for source, _ in poll.poll(timeout_s * 1000)]

    def _run_calls(self) -> None:
        while self._calls:
            action, future = self._calls.popleft()
            if future is None:
                action()
                continue
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

    # ------------------------------------------------------------------ end

    def socket_drops(self) -> int:
        """Packets the kernel dropped because we were too slow to take them."""
        return sum(port.drops() for port in self.ports)

    def close(self) -> None:
        """Give the sockets back. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            refused = [future for _, future in self._calls if future and future.set_running_or_notify_cancel()]
            self._calls.clear()
        for future in refused:
            future.set_exception(MrcError("the endpoint is shut down"))
        if self.attendant is not None:
            self.attendant.close()
        if self.flood_filter is not None:
            self.flood_filter.end()
        self._links.close()
        os.close(self._wake)
        for port in self.ports:
            port.close()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
