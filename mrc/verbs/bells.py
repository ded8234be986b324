# SPDX-License-Identifier: BSD-2-Clause
"""Wake threads and coroutines of asyncio that wait for an object."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from errno import EAGAIN, ETIMEDOUT
from typing import TYPE_CHECKING

from mrc.errors import CallerError
from mrc.verbs.device import Device
from mrc.verbs.errors import VerbsError

if TYPE_CHECKING:
    from asyncio import Future


# How often a waiting coroutine looks whether a thread runs the device.
_LOOK_AGAIN_S = 0.05


class Bell:
    """A file descriptor that becomes readable when the bell rings. One thread or coroutine waits, any thread rings."""

    __slots__ = ("__weakref__", "_device", "_rung", "fd")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rung = False
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.fd)

    def ring(self) -> None:
        """Wake the waiter. It does not give up the interpreter, so code that has the endpoint may call it."""
        if not self._rung:
            self._device.ring(self.fd)
            self._rung = True

    def is_rung(self) -> bool:
        return self._rung

    def hush(self) -> None:
        """Make it silent again. Check the condition that it rings for after this, not before."""
        if self._rung:
            self._rung = False
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.fd)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it rings, at most `timeout_s`; return whether it did.

        Raises CallerError in the thread that runs the device: it would wait for itself.
        """
        before = self._device.now()
        rang = self._device.wait(self.fd, self.is_rung, timeout_s)
        if not rang and timeout_s != 0 and self._device.now() == before:
            raise CallerError(
                "virtual time does not pass while this waits: call it outside of callbacks of the simulation"
            )
        return rang

    async def wait_async(self, timeout_s: float | None) -> bool:
        """Wait as a coroutine of asyncio. If no thread runs the device, run it in steps between other tasks."""
        import asyncio

        device, deadline = self._device, Deadline(self._device, timeout_s)
        began = device.now()
        while not self._rung and not deadline.is_over():
            if device.runs_itself:
                await self._readable(_LOOK_AGAIN_S if (left := deadline.left_s()) is None else min(left, _LOOK_AGAIN_S))
            elif device.step(self.fd, self.is_rung, deadline.until, began):
                await asyncio.sleep(0)
            else:
                break
        return self._rung

    async def _readable(self, timeout_s: float) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        rang: Future[None] = loop.create_future()
        loop.add_reader(self.fd, _settle, rang)
        patience = loop.call_later(timeout_s, _settle, rang)
        try:
            await rang
        finally:
            loop.remove_reader(self.fd)
            patience.cancel()


def _settle(rang: Future[None]) -> None:
    if not rang.done():
        rang.set_result(None)


class Bells:
    """The bells of all threads and coroutines that wait for one object."""

    __slots__ = ("_closed", "_idle", "_lock", "_waiting", "device")

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lock = threading.Lock()
        # Replaced, never changed: `ring` reads it without the lock.
        self._waiting: tuple[Bell, ...] = ()
        self._idle: list[Bell] = []
        self._closed = False

    def ring(self) -> None:
        for bell in self._waiting:
            bell.ring()

    @contextlib.contextmanager
    def one(self) -> Iterator[Bell]:
        """Give a bell that rings with all others until the block ends."""
        with self._lock:
            bell = self._idle.pop() if self._idle else Bell(self.device)
            self._waiting = (*self._waiting, bell)
        try:
            yield bell
        finally:
            with self._lock:
                self._waiting = tuple(each for each in self._waiting if each is not bell)
                if not self._closed:
                    self._idle.append(bell)

    def close(self) -> None:
        """Wake all waiters and close the descriptors: the object is closed."""
        with self._lock:
            self._closed = True
            self._idle.clear()
        self.ring()


class Deadline:
    """The end of a wait. `timeout_s`: None waits without limit, 0 not at all. `until` is the end on the device's clock,
    ns, or None."""

    __slots__ = ("_device", "_waits", "until")

    def __init__(self, device: Device, timeout_s: float | None) -> None:
        self._device = device
        self._waits = timeout_s is None or timeout_s > 0
        self.until = None if timeout_s is None else device.now() + int(timeout_s * 1e9)

    def is_over(self) -> bool:
        return self.until is not None and self._device.now() >= self.until

    def left_s(self) -> float | None:
        """Seconds that are left; None: no limit."""
        return None if self.until is None else max(0.0, (self.until - self._device.now()) / 1e9)

    def error(self, what: str) -> VerbsError:
        """The error to raise when the time is up."""
        return VerbsError(ETIMEDOUT if self._waits else EAGAIN, what)
