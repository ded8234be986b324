# SPDX-License-Identifier: BSD-2-Clause
"""The thread that serves the control's sockets. A child that is forked holds none of them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from mrc.errors import SystemRefused
from mrc.threads import start_thread

# How long nobody is let in where the system has no descriptor or memory left for one more.
_ACCEPT_AGAIN_S = 0.2
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger("mrc.collectives")
_open: weakref.WeakSet[Loop] = weakref.WeakSet()


class Loop:
    """Listens on a port and watches sockets; all calls come from its thread.

    `accept` takes a connection. `look` does what is due, and returns whether all is over; `due` returns when there is
    something to look at, None where only sockets can bring it. Times are those of `time.monotonic`. `failed` is called
    with what ended the thread. Raises SystemRefused where there is no port to listen on.
    """

    def __init__(
        self,
        accept: Callable[[socket.socket], None],
        due: Callable[[], float | None],
        look: Callable[[float], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self._take = accept
        self._due = due
        self._look = look
        self._failed = failed
        self._lock = threading.Lock()
        self._asked: deque[Callable[[], object]] = deque()
        self._accept_at: float | None = None
        self._over = False
        with _no_fork:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._selector = selectors.DefaultSelector()
            try:
                self._server = socket.create_server(
                    ("::", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True
                )
            except OSError as error:
                os.close(self._wake)
                self._selector.close()
                raise SystemRefused(error.errno, f"no port to listen on for other ranks: {error.strerror}") from None
            _open.add(self)
        self._server.setblocking(False)
        self.port: int = self._server.getsockname()[1]
        self._selector.register(self._server, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._hear_wake)

    def start(self) -> None:
        """Raises SystemRefused where there is no thread for it: it is closed then."""
        try:
            self._thread = start_thread(self._run, name="mrc control")
        except SystemRefused:
            self._release()
            raise

    def ask(self, action: Callable[[], object]) -> None:
        """Have the thread do this, unless all is over. From any thread."""
        with self._lock:
            if not self._over:
                self._asked.append(action)
                with contextlib.suppress(OSError):
                    os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Wait until all is over, and let go of everything. Safe to call twice."""
        self._thread.join()
        self._release()

    def watch(self, sock: socket.socket, events: int, handler: Callable[[int], object]) -> None:
        """Call `handler` with what happens of these selectors' events. Raises OSError where one more is too many."""
        self._selector.register(sock, events, handler)

    def change(self, sock: socket.socket, events: int) -> None:
        """Watch a socket for these events instead."""
        known = self._selector.get_key(sock)
        if known.events != events:
            self._selector.modify(sock, events, known.data)

    def drop(self, sock: socket.socket) -> None:
        """Close a socket, watched or not."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)
        sock.close()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            _log.exception("the control of this process has failed")
            self._failed(error)

    def _serve(self) -> None:
        while True:
            known = self._selector.get_map()
            due = [each for each in (self._accept_at, self._due()) if each is not None]
            happened = self._selector.select(max(0.0, min(due) - time.monotonic()) if due else None)
            with _no_fork:
                for key, events in happened:
                    # An earlier event may have closed this connection.
                    if known.get(key.fd) is key:
                        key.data(events)
                while self._asked:
                    self._asked.popleft()()
                now = time.monotonic()
                if self._accept_at is not None and now >= self._accept_at:
                    self._accept_at = None
                    self._selector.register(self._server, selectors.EVENT_READ, self._accept)
                if self._look(now):
                    return

    def _hear_wake(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._server.accept()
        except OSError as error:
            if error.errno in _FULL:
                # It waits in the backlog; this thread must not spin.
                self._selector.unregister(self._server)
                self._accept_at = time.monotonic() + _ACCEPT_AGAIN_S
            return
        self._take(sock)

    def _release(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for key in self._selector.get_map().values():
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._server.close()
        os.close(self._wake)


def _after_fork() -> None:
    """A child must not hold what tells the other ranks that this process has ended."""
    for loop in list(_open):
        if not loop._over:  # noqa: SLF001
            loop._over = True  # noqa: SLF001
            loop._close_descriptors()  # noqa: SLF001
    _no_fork.release()


# Held while a socket is made until it is known here, which a fork in between would hide from the child.
_no_fork = threading.RLock()
os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_after_fork)
