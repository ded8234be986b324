# SPDX-License-Identifier: BSD-2-Clause
"""One client's connection to a control socket. ControlServer imports it, and all that answers requests, when needed."""

from __future__ import annotations

import contextlib
import errno
import socket

from mrc.control.errors import ControlError
from mrc.control.service import Service, Session, refusal_line, to_line

MAX_REQUEST = 1 << 20
_READ = 1 << 16
# From a client with so many bytes to read no requests are taken, and no events are sent to it, until it has read them.
HIGH_WATER = 1 << 18
_MOST_EVENTS = 256  # at a time


class Connection:
    """One client's. `turn` does what there is to do."""

    def __init__(self, connection: socket.socket, service: Service) -> None:
        self.connection = connection
        self.session = Session(service)
        self._call = service.device.call
        self.open = True
        self._in = bytearray()
        self._out = bytearray()
        self._reported_dropped = 0
        self._ended = False

    @property
    def pending(self) -> bool:
        """Whether there is something to do that no file descriptor shows."""
        return not self._out and (b"\n" in self._in or self._has_events())

    @property
    def blocked(self) -> bool:
        return bool(self._out)

    def _has_events(self) -> bool:
        events = self.session.events
        return events is not None and (events.waiting > 0 or events.dropped != self._reported_dropped)

    def turn(self) -> None:
        """Everything that can be done without waiting."""
        try:
            self._flush()
            if len(self._out) < HIGH_WATER:
                self._read()
                self._take_request()
                self._tell_events()
                self._flush()
        except OSError:
            self._call(self.close)
        if self._ended and not self._out and b"\n" not in self._in:
            self._call(self.close)

    def _read(self) -> None:
        if self._ended or b"\n" in self._in:
            return
        try:
            data = self.connection.recv(_READ)
        except BlockingIOError:
            return
        if not data:
            self._ended = True
        self._in += data
        if len(self._in) > MAX_REQUEST and b"\n" not in self._in:
            self.send_line(refusal_line(ControlError(errno.E2BIG, "a request is one line", MAX_REQUEST)))
            self._in.clear()
            self._ended = True

    def _take_request(self) -> None:
        at = self._in.find(b"\n")
        if at < 0:
            return
        line = bytes(self._in[:at])
        del self._in[: at + 1]
        if not line.strip():
            return
        if self.session.events is None:
            self._reported_dropped = 0
        self._call(lambda: self.session.handle(line, self.send_line))

    def send_line(self, line: bytes) -> None:
        """Append a line. On a closed connection the answer to an earlier request is dropped."""
        if self.open:
            self._out += line

    def _tell_events(self) -> None:
        if self._out or not self._has_events():
            return
        for event in self.session.take_events(_MOST_EVENTS):
            self.send_line(to_line(event))
        events = self.session.events
        if events is not None and events.dropped != self._reported_dropped and not events.waiting:
            self._reported_dropped = events.dropped
            self.send_line(to_line({"event": "dropped", "dropped": events.dropped}))

    def _flush(self) -> None:
        while self._out:
            try:
                sent = self.connection.send(self._out[:_READ])
            except BlockingIOError:
                return
            del self._out[:sent]

    def close(self) -> None:
        """Hang up, where the endpoint runs or when it has ended."""
        if self.open:
            self.open = False
            self.session.close()
            self.connection.close()


def refuse(connection: socket.socket, why: ControlError) -> None:
    """Tell a client that it cannot be one, and hang up."""
    with contextlib.suppress(OSError):
        connection.send(refusal_line(why))
    connection.close()
