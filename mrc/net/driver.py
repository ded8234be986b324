# SPDX-License-Identifier: BSD-2-Clause
"""The loop that gives an endpoint sockets and a clock.

One thread runs it; others reach in (`Reach`). A turn of the loop takes what has arrived, runs the timers that are due
and sends what may leave, batch by batch; with nothing to do it sleeps until a packet, a timer or a call.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.responder.received import ReceiveBudget
from mrc.errors import MrcError
from mrc.net.attendant import Attendance, Attendant
from mrc.net.driven import Driven
from mrc.net.flood_filter import FloodFilter
from mrc.net.link_events import LinkChange
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.plain_turn import PlainTurn
from mrc.net.port_care import PortCare
from mrc.net.ports import Port
from mrc.net.reach import Reach
from mrc.net.turn import Turn
from mrc.opened import Closing
from mrc.wire.transmit_batch import TransmitBatch

T = TypeVar("T")

RECEIVE_ROWS = 128  # for each port
# However busy the loop is, Python looks after things that often: timers of its own, the attendant.
LOOK_INTERVAL_NS = 10_000_000
_LONGEST_SLEEP_S = 0.25
LONGEST_SLEEP_NS = 250_000_000
_S = 1_000_000_000


# Descriptors of Python's in the order in which the loop watches them.
_LINKS, _CALLS, _ATTENDANT = 1, 2, 4


def _never() -> bool:
    return False


class Driver(Reach, Closing):
    """Runs one endpoint over its ports. Use as a context manager; `close` gives the sockets back."""

    def __init__(
        self, endpoint: Driven, ports: Sequence[Port], mtu: int, receive_budget: ReceiveBudget | None = None
    ) -> None:
        """`ports` are one node's, at least one; `mtu` is the longest packet in bytes that is to be received whole.

        `receive_budget` is kept informed of what waits unread.
        """
        super().__init__()
        self.ports = ports
        room = (mtu + 63) & ~63
        self._receiver = BatchReceiver(ports, RECEIVE_ROWS * len(ports), room)
        self._batch = TransmitBatch(endpoint.config.transmit_batch)
        self._sender = BatchSender(ports, self._batch)
        self._budget = receive_budget
        self._port_care = PortCare(endpoint, ports, self._sender)
        self._attendance: Attendance | None = None
        # Keeps a flood of what the endpoint would refuse away from it.
        self.flood_filter: FloodFilter | None = None
        self.use(endpoint)

    def use(self, endpoint: Driven) -> None:
        """Run this endpoint: before the loop runs, another than it was made with, over the same ports."""
        self.endpoint = endpoint
        self._port_care.use(endpoint)
        self._native = endpoint if type(endpoint) is Endpoint else None
        if type(endpoint) is Endpoint and self._budget is not None:
            self._turn = Turn(
                endpoint.datapath, self._receiver, self._sender, self._batch, self._budget, endpoint.counters
            )
        else:
            self._turn = PlainTurn(endpoint, self._receiver, self._sender, self._batch, self.ports, self._budget)
        self._watch()

    def _watch(self) -> None:
        """The loop's sleep ends for what arrives, for links, for calls, and for the attendant."""
        attended = () if self._attendance is None else self._attendance.attendant.sources
        ports = [port.receiver.fileno() for port in self.ports]
        self._turn.watch(ports, [self._port_care.links.fileno(), self._wake, *attended])

    def look_after(self, attendant: Attendant) -> None:
        """Look after this, too, between turns."""
        self._attendance = Attendance(attendant)
        self._watch()

    # ------------------------------------------------------------------ the loop

    def run(
        self,
        until: Callable[[], bool],
        poll_s: float = _LONGEST_SLEEP_S,
        *,
        before_sending: Callable[[], bool] = _never,
    ) -> None:
        """Turn until `until()` holds; it is asked when work has ended, and at least every `poll_s` seconds.

        While `before_sending()` holds, `until` is asked whenever packets have arrived, before anything leaves: writes
        posted there go ahead of the answers. It must not destroy a QP then, whose last answer would never leave. This
        costs a return to Python for each batch of packets, so only who answers writes with writes wants it.
        """
        self.check_open()
        before = self._interrupted
        with self._lock:
            self._owner = threading.get_ident()
        try:
            while True:
                early = before_sending()
                if not early and until():
                    break
                if self.turn(poll_s, until if early else _never):
                    break
            if early:
                # What was posted last goes out.
                self._turn.run(0, False)
        finally:
            with self._lock:
                self._run_calls()
                self._owner = None
        if self._interrupted and not before:
            raise KeyboardInterrupt

    def poll(self) -> None:
        """One turn without sleep, for who looks again at once. Like `run`, for one thread at a time."""
        self.check_open()
        with self._lock:
            self._owner = threading.get_ident()
        try:
            self.turn(0.0)
        finally:
            with self._lock:
                self._run_calls()
                self._owner = None

    def turn(self, longest_s: float = _LONGEST_SLEEP_S, until: Callable[[], bool] = _never) -> bool:
        """Turns until Python is wanted, or for `longest_s`; 0: one turn without sleep. Then what Python has to look
        after. Returns what `until` says, which is asked before anything is sent that answers what has arrived."""
        if self._interrupted:
            raise KeyboardInterrupt
        end = time.monotonic_ns() + int(longest_s * _S) if longest_s > 0 else 0
        self._turning = True
        try:
            self._turn.run(end, until is not _never)
        finally:
            self._turning = False
        if self._interrupted:
            raise KeyboardInterrupt
        self._look_after(time.monotonic_ns())
        if self._steps:
            self._run_steps()
        over = until()
        if self._calls:
            self._run_calls()
        return over

    def _look_after(self, now: int) -> None:
        """What wants Python, between turns."""
        turn = self._turn
        turn.wanted.up = False
        due = now >= turn.look_at
        # How the links stood when the loop began they are asked by themselves.
        changes = self._port_care.links.changes() if turn.readable & _LINKS or not turn.look_at else ()
        if turn.readable & _CALLS:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        # Its clients are files: what it asks of the endpoint it asks by `call`.
        if self._attendance is not None and self._attendance.look(now, turn.readable >= _ATTENDANT):
            self._watch()
        # The stand-in may have been in the endpoint since: it has a time of its own, and that never goes back.
        self._inside(lambda: self._look_at_endpoint(changes, time.monotonic_ns()))
        if due:
            turn.look_at = now + LOOK_INTERVAL_NS

    def _look_at_endpoint(self, changes: Iterable[LinkChange], now: int) -> None:
        """Between two turns, the endpoint in hand. Nothing in here calls the system, except where something is wrong:
        the interpreter would be given up, and the stand-in waits until this thread is done."""
        if self._calls:
            self._run_calls()
        self._receiver.check()
        self._sender.check()
        if self._native is not None:
            self._native.look_after(now)
        self._port_care.look(changes, now)
        if self.flood_filter is not None:
            self.flood_filter.look(now)
        self._turn.sleep_until = self._next_look(now)

    def _next_look(self, now: int) -> int:
        """When Python wants to be asked next if nothing happens, ns."""
        due = now + LONGEST_SLEEP_NS
        if self._attendance is not None:
            due = self._attendance.next_look(now, due)
        operation = None if self._native is None else self._native.looks_at()
        return due if operation is None else min(due, operation)

    def _run_steps(self) -> None:
        """Run the steps requested so far. Steps that they request run after the next turn."""
        for _ in range(len(self._steps)):
            self._steps.popleft()()
        if self._steps:
            self._turn.wanted.up = True

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
            refused = self._calls.drop()
            self._steps.clear()
        for future in refused:
            future.set_exception(MrcError("the endpoint is shut down"))
        if self._stand_in is not None and isinstance(self._turn, Turn):
            self._turn.end_stand_in()
            self._stand_in.join()
        if self._attendance is not None:
            self._attendance.attendant.close()
        if self.flood_filter is not None:
            self.flood_filter.end()
        self._port_care.links.close()
        self._turn.close()
        os.close(self._wake)
        for port in self.ports:
            port.close()
