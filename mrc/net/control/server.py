# SPDX-License-Identifier: BSD-2-Clause
"""The control socket of a running endpoint, served between two turns of its loop: no thread, nothing that blocks.

What a client can cost is bounded: so many clients, so long a request, so many bytes that wait to be read by it; one
request of each client a turn, and none while it does not read its answers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mrc.errors import SystemRefused
from mrc.net.control.places import SUFFIX, SocketDirectory, other_end, prepared_directory

if TYPE_CHECKING:
    from mrc.control.service import Service
    from mrc.net.control.connection import Connection

MAX_CLIENTS = 16
# How often a loop that never sleeps looks here, besides when it sees that a source is readable: with nobody connected,
# and with somebody.
IDLE_INTERVAL_NS, BUSY_INTERVAL_NS = 1_000_000_000, 1_000_000
_WAIT_FOR_READER_S = 0.02


class ControlServer:
    """Listens at a file of its own from the moment it is made; `attend` does everything else.

    Who connects has to be root or the user this process runs as. Raises SystemRefused when it cannot listen.
    """

    def __init__(self, make_service: Callable[[], Service]) -> None:
        """`make_service` is called with the first client, where the endpoint runs."""
        self._make_service = make_service
        self._service: Service | None = None
        self._clients: list[Connection] = []
        # A loop that sleeps is woken by these.
        self.sources: list[int] = []
        directory = prepared_directory()
        remove_stale(directory)
        self._listener, self.path = _listen(directory)
        self._sources_changed()

    def attend(self) -> int:
        """Accept, read, answer: the endpoint is asked by its device's `call`.

        Returns after how many ns a loop that does not sleep is to come back.
        """
        self._accept()
        if not self._clients:
            return IDLE_INTERVAL_NS
        for client in self._clients:
            client.turn()
        if not all(client.open for client in self._clients):
            self._clients = [client for client in self._clients if client.open]
            self._sources_changed()
        return BUSY_INTERVAL_NS

    def _accept(self) -> None:
        for _ in range(MAX_CLIENTS):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._accepted(connection)

    def patience_s(self) -> float | None:
        """How long a loop with nothing to do may sleep without looking here, s; None: until a source wakes it."""
        if any(client.pending for client in self._clients):
            return 0.0
        return _WAIT_FOR_READER_S if any(client.blocked for client in self._clients) else None

    @staticmethod
    def prepare() -> None:
        """Import what the first client needs, which takes some 80 ms: later the loop would stand still for it."""
        import mrc.net.control.connection  # noqa: F401

    def _accepted(self, connection: socket.socket) -> None:
        # Most endpoints end before somebody looks at them.
        from mrc.control.errors import ControlError
        from mrc.net.control.connection import Connection, refuse

        connection.setblocking(False)
        _, uid = other_end(connection)
        refusal = None
        if uid not in (0, os.geteuid()):
            refusal = ControlError(errno.EPERM, f"this endpoint is root's and user {os.geteuid()}'s to control")
        elif len(self._clients) >= MAX_CLIENTS:
            refusal = ControlError(errno.EBUSY, f"{MAX_CLIENTS} clients are connected already")
        if refusal is not None:
            refuse(connection, refusal)
            return
        if self._service is None:
            self._service = self._make_service()
        self._clients.append(Connection(connection, self._service))
        self._sources_changed()

    def _sources_changed(self) -> None:
        self.sources = [self._listener.fileno(), *(client.connection.fileno() for client in self._clients)]

    def close(self) -> None:
        """Hang up, and take the file away. Safe to call twice."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        self.sources = []
        if self._listener.fileno() >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            self._listener.close()


def _listen(directory: Path) -> tuple[socket.socket, Path]:
    """A listening socket under the next free name of this process. It appears there only once it listens."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    hidden = directory / f".{os.getpid()}-{id(listener):x}"
    try:
        # Nobody else's to connect to, from the very beginning.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(str(hidden))
        listener.listen(MAX_CLIENTS)
        for number in range(1, 1000):
            path = directory / f"{os.getpid()}{f'-{number}' if number > 1 else ''}{SUFFIX}"
            try:
                os.link(hidden, path)
            except FileExistsError:
                continue
            os.unlink(hidden)
            return listener, path
        raise SystemRefused(f"{directory} is full of sockets of process {os.getpid()}")
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        listener.close()
        if isinstance(error, SystemRefused):
            raise
        raise SystemRefused(f"control socket in {directory}: {error.strerror or error}") from None


def remove_stale(directory: Path) -> list[Path]:
    """Take away the sockets of processes that were killed: nobody listens there. Returns which."""
    removed = []
    with SocketDirectory(directory) as opened:
        for name in opened.names():
            if Path("/proc", name.removesuffix(SUFFIX).partition("-")[0]).exists():
                continue  # no need to knock
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)) as probe:
                try:
                    opened.connect(probe, name)
                except ConnectionRefusedError:
                    with contextlib.suppress(OSError):
                        opened.remove(name)
                        removed.append(directory / name)
                except OSError:
                    continue  # a full backlog, or not ours: somebody is there
    return removed
