# SPDX-License-Identifier: BSD-2-Clause
"""How threads reach an endpoint that a loop runs: calls, steps, and who may touch it when.

With a stand-in a second thread turns while the loop's does not come, because others have the interpreter. What others
reach in for they then do themselves, between two turns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.endpoint import Endpoint
from mrc.errors import CallerError, Forked, MrcError
from mrc.net.calls import Calls
from mrc.net.plain_turn import PlainTurn
from mrc.net.priority import go_first
from mrc.net.turn import Turn
from mrc.opened import not_in_a_child
from mrc.threads import start_thread

T = TypeVar("T")


class Reach:
    """What `Driver` is for others than its loop."""

    _turn: Turn | PlainTurn
    # None where one is changed somewhere: it is asked in all that it does.
    _native: Endpoint | None

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._calls = Calls()
        self._steps: deque[Callable[[], None]] = deque()
        # The thread that runs the loop. While there is none, the thread that holds the lock may touch the endpoint.
        self._owner: int | None = None
        self._lock = threading.RLock()
        self._closed = self._forked = False
        not_in_a_child(self)
        self._interrupted = False
        self._turning = False  # whether a turn is under way
        # Whether an interrupt came outside of the loop, in the middle of what `_inside` does.
        self._put_off = False
        self._stand_in: threading.Thread | None = None

    def have_stand_in(self) -> None:
        """Let a second thread turn while the loop's does not come. From then on nothing of the endpoint is touched but
        through `call` and `submit`. There is none where the datapath is not compiled: it would need the interpreter."""
        turn = self._turn
        if not isinstance(turn, Turn) or CORE.kind != COMPILED:
            return
        turn.prepare_stand_in()

        def stand_in() -> None:
            # Signals are for who has handlers.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            go_first()
            turn.stand_in()

        self._stand_in = start_thread(stand_in, name="mrc stand-in")

    def have_doorbells(self, address: int) -> None:
        """Work for a program that posts into rings in its memory; `address` is where its doorbells are.

        Raises CallerError for an endpoint that is changed somewhere.
        """
        turn = self._turn
        if not isinstance(turn, Turn):
            raise CallerError("only a plain endpoint works for rings")
        self.call(lambda: turn.have_doorbells(address))

    def hand_over(self) -> None:
        """With a stand-in: hand over the work that has ended, here and now, from any thread."""
        self._check_here()
        endpoint = self._native
        if self._stand_in is not None and endpoint is not None and endpoint.work_has_ended:
            self._inside(endpoint.hand_over)

    def is_inside(self) -> bool:
        """Whether the calling thread has the endpoint."""
        me = threading.get_ident()
        if me == self._owner and self._turning:
            return True
        return me == self._turn.holder or (self._stand_in is not None and me == self._stand_in.ident)

    def _inside(self, action: Callable[[], T]) -> T:
        """Do this while no turn is under way."""
        if self.is_inside():
            return action()
        try:
            return self._turn.inside(action, threading.get_ident())
        finally:
            # Also where the action failed: nothing else would look at it.
            if self._put_off and threading.current_thread() is threading.main_thread():
                self._put_off = False
                raise KeyboardInterrupt

    def check_open(self) -> None:
        """Raises MrcError when the driver is closed, Forked where it is the parent's."""
        self._check_here()
        if self._closed:
            raise MrcError("the endpoint is shut down")

    def _check_here(self) -> None:
        if self._forked:
            raise Forked("a child that was forked has no endpoint: open the device in it")

    def _abandon(self) -> None:
        self._closed = self._forked = True
        # Who held it is not in the child.
        self._lock = threading.RLock()

    def _do(self, action: Callable[[], T]) -> T:
        """Run what another thread asked for."""
        self.check_open()
        return action()

    def call(self, action: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `action` in the loop's thread, between two of its turns, and return what it returns.

        With no loop running, and with a stand-in, it is run here and now. Raises MrcError when the driver is closed, or
        when nothing happens for `timeout_s`; then `action` is never run. Raises Forked in a child.
        """
        self._check_here()
        if threading.get_ident() == self._owner:
            # What was submitted before comes before it, with a loop or without one.
            self._run_calls()
            return self._inside(action)
        if self._stand_in is not None:
            # When to look after things is another matter now.
            self._turn.wanted.up = True
            return self._inside(lambda: self._do(action))
        with self._lock:
            self.check_open()
            if self._owner is None:
                self._run_calls()
                return self._inside(action)
            future = self._calls.ask(action)
            self._turn.wanted.up = True
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
        self._check_here()
        if threading.get_ident() == self._owner:
            self._calls.add(action)
            return
        if self._stand_in is not None:
            self._inside(lambda: self._do(action))
            return
        with self._lock:
            self.check_open()
            self._calls.add(action)
            self._turn.wanted.up = True
            if self._owner is not None:
                os.eventfd_write(self._wake, 1)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run `action` in the loop's thread after its turn, without waiting for it. From any thread.

        Unlike a submitted action it does not hold the endpoint: it may take long and give up the interpreter, and the
        stand-in handles packets meanwhile. It raises nothing. Without a running loop it runs in the next turn. Raises
        MrcError when the driver is closed.
        """
        self.check_open()
        self._steps.append(action)
        if threading.get_ident() != self._owner:
            self.wake()

    @property
    def owner(self) -> int | None:
        """The thread that runs the loop."""
        return self._owner

    def ring(self, bell: int) -> None:
        """Make an eventfd readable without giving up the interpreter."""
        self._turn.ring(bell)

    def wake(self) -> None:
        """End the loop's sleep, from any thread or a signal handler."""
        if not self._closed:
            self._turn.wanted.up = True
            with contextlib.suppress(OSError):
                os.eventfd_write(self._wake, 1)

    def interrupt(self) -> bool:
        """End the loop with KeyboardInterrupt at its next turn. Returns whether that is seen to: else the caller does.

        For signal handlers, which run in the main thread. An exception that one raises vanishes in the compiled code of
        a turn, and anywhere in the loop it may leave a lock held or half of something done. So it is seen to as long as
        the main thread runs the loop or has the endpoint; but a second interrupt ends what the first one waits for.
        """
        again, self._interrupted = self._interrupted, True
        self.wake()
        me = threading.get_ident()
        if self._turning:
            return True
        if me == self._owner:
            return not again
        if me == self._turn.holder and not again:
            self._put_off = True
            return True
        return False

    def _run_calls(self) -> None:
        if self._calls:
            self._inside(self._calls.carry_out)
