# SPDX-License-Identifier: BSD-2-Clause
"""Whole messages over one TLS connection, with a time limit on each."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time

from mrc.errors import PeerError
from mrc.net.exchange.config import MAX_MESSAGE_BYTES, ExchangeConfig
from mrc.net.exchange.messages import LENGTH, Message, decode, encode

_LOOK = socket.MSG_PEEK | socket.MSG_DONTWAIT


class ChannelLost(PeerError):
    """A connection is of no more use. `reason`: "timeout", "ended" (the other end closed it), "closed" (it broke on the
    way or at this end) or "malformed"."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Channel:
    """One end of a connection. After any error it is only good for `close`.

    OpenSSL does not bear two threads in one connection. A caller may send from two threads, but must not receive
    while another thread sends; `interrupt` alone may come from anywhere at any time.
    """

    def __init__(self, tls: ssl.SSLSocket, message_timeout_s: float) -> None:
        self._tls = tls
        self._message_timeout_s = message_timeout_s
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message. Raises CallerError when it cannot be written, ChannelLost when it does not get out."""
        left = memoryview(encode(message))
        with self._sending:
            by = time.monotonic() + self._message_timeout_s
            while left:
                try:
                    self._tls.settimeout(max(by - time.monotonic(), 0.001))
                    left = left[self._tls.send(left) :]
                except OSError as error:
                    raise _lost(error) from None

    def send_soon(self, message: Message) -> None:
        """Send one message if it can leave at once. Nothing is raised."""
        with self._sending, contextlib.suppress(OSError):
            self._tls.settimeout(0)
            self._tls.send(encode(message))

    def receive(
        self,
        first_by: float | None = None,
        whole_by: float | None = None,
        stall_s: float | None = None,
        limit: int = MAX_MESSAGE_BYTES,
    ) -> Message:
        """The next message.

        Its first byte must come by `first_by` (time.monotonic(), None: whenever), its last by `whole_by` (None: the
        message timeout after the first), with no gap above `stall_s` seconds; it may have `limit` bytes. Raises
        ChannelLost.
        """
        header = self._read(1, first_by, None)
        if whole_by is None:
            whole_by = time.monotonic() + self._message_timeout_s
        header += self._read(LENGTH.size - 1, whole_by, stall_s)
        (length,) = LENGTH.unpack(header)
        if length > limit:
            raise ChannelLost("malformed", f"the other end sent a message of {length} bytes, the most is {limit}")
        content = self._read(length, whole_by, stall_s)
        try:
            return decode(content)
        except PeerError as error:
            raise ChannelLost("malformed", str(error)) from None

    def is_readable(self) -> bool:
        """Whether something waits to be read, the end of the connection too. For whoever expects no message now."""
        try:
            arrived = select.poll()
            arrived.register(self._tls, select.POLLIN)
            return self._tls.pending() > 0 or bool(arrived.poll(0))
        except (OSError, ValueError):
            return True  # it is closed

    def has_ended(self) -> bool:
        """Whether the other end closed the connection and everything it sent has been read.

        Call it only while no thread receives.
        """
        try:
            # Nothing is taken out of the connection, so that OpenSSL does not notice.
            return self.is_readable() and not self._tls.pending() and not socket.socket.recv(self._tls, 1, _LOOK)
        except ConnectionResetError:
            return True
        except OSError:
            return False  # closed at this end

    def interrupt(self) -> None:
        """Wake the threads that wait in `send` or `receive`; they find the connection closed."""
        # SSLSocket.shutdown would drop the TLS state under the feet of a thread that is using it.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._tls, socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._tls.close()

    def _read(self, count: int, by: float | None, stall_s: float | None) -> bytes:
        content = bytearray()
        while len(content) < count:
            timeout = None if by is None else by - time.monotonic()
            if timeout is not None and stall_s is not None:
                timeout = min(timeout, stall_s)
            if timeout is not None and timeout <= 0:
                raise ChannelLost("timeout", "no answer in time")
            try:
                self._tls.settimeout(timeout)
                part = self._tls.recv(count - len(content))
            except OSError as error:
                raise _lost(error) from None
            if not part:
                raise ChannelLost("ended", "the other end closed the connection")
            content += part
        return bytes(content)


def set_tcp_options(connection: socket.socket, config: ExchangeConfig) -> None:
    """Small messages at once, and an end to a connection whose path has died in silence."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, config.keepalive_idle_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(config.tcp_user_timeout_s * 1000))


def _lost(error: OSError) -> ChannelLost:
    if isinstance(error, TimeoutError):
        return ChannelLost("timeout", "no answer in time")
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return ChannelLost("ended", f"the connection broke: {error.strerror or error}")
    return ChannelLost("closed", f"the connection broke: {error.strerror or error}")
