"""What wakes who waits for an object: in a thread, or as a coroutine of asyncio."""

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


# How often who waits looks whether somebody runs the device.
_LOOK_AGAIN_S = 0.05


class Bell:
    """A file descriptor that is readable once somebody rang. One waits for it, any thread rings."""

    __slots__ = ("__weakref__", "_device", "_rung", "fd")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rung = False
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.fd)

    def ring(self) -> None:
        """Wake who waits. Gives up no interpreter: it is for where the endpoint runs."""
        if not self._rung:
            self._device.ring(self.fd)
            self._rung = True

    def is_rung(self) -> bool:
        return self._rung

    def hush(self) -> None:
        """Be silent again. What is to ring it afterwards is looked at after this."""
        self._rung = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it rings, at most `timeout_s`. Returns whether it did. Raises CallerError where the device runs,
        which would wait for itself."""
        before = self._device.now()
        rang = self._device.wait(self.fd, self.is_rung, timeout_s)
        if not rang and timeout_s != 0 and self._device.now() == before:
            raise CallerError(
                "time does not pass while somebody waits here: wait outside of what is called as it passes"
            )
        return rang

    async def wait_async(self, timeout_s: float | None) -> bool:
        """`wait` as a coroutine of asyncio. Where nobody runs the device this does, step by step between others."""
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
    """Those of all who wait for one object."""

    __slots__ = ("_closed", "_device", "_idle", "_lock", "_waiting")

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()
        # Replaced, never changed: who rings looks at it without the lock.
        self._waiting: tuple[Bell, ...] = ()
        self._idle: list[Bell] = []
        self._closed = False

    def ring(self) -> None:
        for bell in self._waiting:
            bell.ring()

    @contextlib.contextmanager
    def one(self) -> Iterator[Bell]:
        """A bell that rings with all others until the block ends."""
        with self._lock:
            bell = self._idle.pop() if self._idle else Bell(self._device)
            self._waiting = (*self._waiting, bell)
        try:
            yield bell
        finally:
            with self._lock:
                self._waiting = tuple(each for each in self._waiting if each is not bell)
                if not self._closed:
                    self._idle.append(bell)

    def close(self) -> None:
        """The object is gone: wake who waits, and keep no descriptor."""
        with self._lock:
            self._closed = True
            self._idle.clear()
        self.ring()


class Deadline:
    """How long somebody is willing to wait. `timeout_s`: None for ever, 0 not at all. `until` is when it is over by the
    device's clock, ns, or None."""

    __slots__ = ("_device", "_waits", "until")

    def __init__(self, device: Device, timeout_s: float | None) -> None:
        self._device = device
        self._waits = timeout_s is None or timeout_s > 0
        self.until = None if timeout_s is None else device.now() + int(timeout_s * 1e9)

    def is_over(self) -> bool:
        return self.until is not None and self._device.now() >= self.until

    def left_s(self) -> float | None:
        """Seconds that are left; None: for ever."""
        return None if self.until is None else max(0.0, (self.until - self._device.now()) / 1e9)

    def error(self, what: str) -> VerbsError:
        """What to raise, with these words, when the time is up."""
        return VerbsError(ETIMEDOUT if self._waits else EAGAIN, what)
