# SPDX-License-Identifier: BSD-2-Clause
"""The sender's side: one session with a receiver, whatever happens to the paths between them."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mrc.errors import CallerError, PeerError
from mrc.net.exchange.channel import Channel, ChannelLost, set_tcp_options
from mrc.net.exchange.config import DEFAULT_EXCHANGE_CONFIG, MAX_HELLO_BYTES, ExchangeConfig
from mrc.net.exchange.dial import REFUSED, dial
from mrc.net.exchange.messages import (
    NONCE_BYTES,
    PROTOCOL,
    SESSION_BYTES,
    VERSION,
    Message,
    byte_member,
    encode,
    feature_member,
    member,
    proof,
    version_member,
    version_mismatch,
)
from mrc.net.exchange.tls import WrongCertificate, client_context, client_handshake
from mrc.net.ticket import Ticket
from mrc.opened import Closing
from mrc.threads import start_thread


class SessionRefused(PeerError):
    """The receiver the ticket names answered, and will not have this session: trying again is of no use."""


class RefusedByPeer(PeerError):
    """The receiver's handler refused a request. `error_class`: the class of its error, "CallerError" and the like."""

    def __init__(self, text: str, error_class: str) -> None:
        super().__init__(text)
        self.error_class = error_class


class ExchangeClient(Closing):
    """A session with the receiver that made `ticket` (architecture.md, "Out-of-band exchange").

    It connects at the first request. Any thread may use it; requests go one after another. A thread of its own pings
    an idle connection, so that the session moves to another address of the ticket when a plane dies, before the
    receiver takes this end for gone. Close it, or use it as a context manager, and the receiver need not wait out the
    linger time.
    """

    def __init__(
        self,
        ticket: Ticket,
        *,
        features: Sequence[str] = (),
        config: ExchangeConfig = DEFAULT_EXCHANGE_CONFIG,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_lost` is called once, in the thread that finds the receiver gone: one that asks, or one of the client."""
        self._ticket = ticket
        self._features = tuple(features)
        self._config = config
        self._context = client_context()
        self._session = secrets.token_bytes(SESSION_BYTES)
        # The thread that holds it uses the connection and everything below.
        self._turn = threading.Lock()
        self._channel: Channel | None = None
        # One that was too slow, until there is another: what the other end still sends into a closed one would come
        # back as a reset, ahead of the word that this end goes on elsewhere.
        self._left: Channel | None = None
        self._address = ""
        self._attempt = 0
        self._connections = 0
        self._welcomed = False
        self._request_id = 0
        self._patience_s = config.attempt_timeout_s
        self._last_heard = 0.0
        self._failures: dict[str, str] = {}
        self._peer_features: frozenset[str] = frozenset()
        self._closed = threading.Event()
        self._pinger: threading.Thread | None = None
        self._on_lost = on_lost
        self._lost: PeerError | None = None

    @property
    def address(self) -> str:
        """The receiver's address now or last connected to; empty before the first request."""
        return self._address

    @property
    def peer_features(self) -> frozenset[str]:
        """What the receiver said it can do; empty before the first request."""
        return self._peer_features

    @property
    def reconnects(self) -> int:
        """How many connections were made after the first one."""
        return max(self._connections - 1, 0)

    def check(self) -> None:
        """Raise PeerError when the receiver was found gone, between requests or by one of another thread."""
        if self._lost is not None:
            raise PeerError(f"the receiver has ended: {self._lost}")

    def request(self, kind: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The receiver's answer to `body`, which its handler executes at most once however often this has to send it.

        `timeout`: seconds in all, connecting included; while the receiver is at work it says so, and only this ends the
        wait. Raises PeerError with the handler's text when that refused, and one that names the addresses tried when
        no answer came: whether the request was executed is then not known. Raises CallerError for a body that is not
        JSON of at most 1 MiB, and when the client is closed.
        """
        deadline = time.monotonic() + timeout
        with self._using(deadline, kind, timeout):
            self._request_id += 1
            request = {"type": "request", "id": self._request_id, "kind": kind, "body": body}
            encode(request)
            try:
                reply = self._transact(request, deadline)
            except ChannelLost as lost:
                raise PeerError(self._no_answer(kind, timeout, str(lost))) from None
            except SessionRefused as refused:
                self._lose(refused)
                raise
        if reply["type"] == "error":
            raise RefusedByPeer(member(reply, "text", str), member(reply, "error_class", str))
        return member(reply, "body", dict)

    def close(self) -> None:
        """Say goodbye, over another address if need be, and end. May be called again, and during a request, which
        then raises CallerError."""
        if self._closed.is_set():
            return
        self._closed.set()
        if not self._turn.acquire(blocking=False):
            channel = self._channel
            if channel is not None:
                channel.interrupt()
            self._turn.acquire()
        try:
            # Nobody is waiting for the goodbye but the receiver's linger time, so it is tried only for a moment.
            if self._welcomed and self._lost is None:
                with contextlib.suppress(PeerError):
                    self._transact({"type": "bye"}, time.monotonic() + 2 * self._config.attempt_timeout_s)
            self._drop(for_good=True)
        finally:
            self._turn.release()
        pinger = self._pinger
        if pinger is not None and pinger is not threading.current_thread():
            pinger.join()

    @contextlib.contextmanager
    def _using(self, deadline: float, kind: str, timeout: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise PeerError(f"no answer to {kind!r} within {timeout:g} s: an earlier request has none yet")
        try:
            if self._closed.is_set():
                raise CallerError("the exchange is closed: make another ExchangeClient")
            yield
        finally:
            self._turn.release()

    def _transact(self, message: Message, deadline: float) -> Message:
        """Send `message` until its reply is here.

        Raises ChannelLost at `deadline`, SessionRefused at once, CallerError when the client is closed meanwhile.
        """
        leaving = message["type"] == "bye"
        while True:
            try:
                channel = self._channel or self._connect(deadline, leaving)
                channel.send(message)
                reply = self._reply(channel, message, deadline)
                self._patience_s = self._config.attempt_timeout_s
                return reply
            except ChannelLost as lost:
                self._check_open(leaving)
                if self._channel is not None:
                    self._failures[self._address] = str(lost)
                    self._drop(too_slow=lost.reason == "timeout")
                if lost.reason == "timeout":
                    # A receiver too busy to answer within a second would otherwise be left again and again.
                    self._patience_s = min(2 * self._patience_s, self._config.max_attempt_timeout_s)
                if lost.reason == "malformed" or time.monotonic() >= deadline:
                    raise

    def _reply(self, channel: Channel, message: Message, deadline: float) -> Message:
        expected = {"request": ("answer", "error"), "ping": ("pong",), "bye": ("bye",)}[message["type"]]
        while True:
            self._check_open(message["type"] == "bye")
            first_by = min(time.monotonic() + self._patience_s, deadline)
            reply = channel.receive(first_by, stall_s=self._patience_s)
            self._last_heard = time.monotonic()
            if reply["type"] in expected and reply.get("id") == message.get("id"):
                return reply
            if reply["type"] not in ("working", "answer", "error", "pong"):
                raise ChannelLost("malformed", f"the receiver sent {reply['type']!r}: use the same mrc release")

    def _check_open(self, leaving: bool) -> None:
        if self._closed.is_set() and not leaving:
            raise CallerError("the exchange was closed during a request")

    def _connect(self, deadline: float, leaving: bool) -> Channel:
        """A connection to whichever address answers.

        Raises ChannelLost at `deadline`, SessionRefused when none ever will, CallerError when the client is closed.
        """
        addresses = list(self._ticket.addresses)
        if self._address in addresses and self._address in self._failures:
            # The one that has just failed comes last.
            at = addresses.index(self._address) + 1
            addresses = addresses[at:] + addresses[:at]
        while True:
            failures: dict[str, str] = {}
            mistaken = 0
            patience_s = max(min(self._patience_s, deadline - time.monotonic()), 0.001)
            dialled = dial(addresses, self._ticket.port, self._config.stagger_s, patience_s, failures)
            with contextlib.closing(dialled):
                for address, connection in dialled:
                    try:
                        return self._admit(address, connection, deadline)
                    except WrongCertificate as wrong:
                        mistaken += 1
                        failures[address] = str(wrong)
                    except ChannelLost as lost:
                        failures[address] = str(lost)
            self._failures.update(failures)
            if mistaken == len(addresses):
                raise SessionRefused(
                    f"{self._tried()}: this is not the receiver that made the ticket; "
                    "take the ticket that it prints now"
                )
            if all(failures.get(address) == REFUSED for address in addresses):
                raise SessionRefused(
                    f"{self._tried()}: start the other end again (mrc recv, mrc bench serve) "
                    "and take the ticket it prints"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelLost("timeout", "no address answers")
            pause_s = min(self._config.round_pause_s, left)
            if leaving:
                time.sleep(pause_s)
            else:
                self._closed.wait(pause_s)
                self._check_open(leaving)
            self._patience_s = min(2 * self._patience_s, self._config.max_attempt_timeout_s)

    def _admit(self, address: str, connection: socket.socket, deadline: float) -> Channel:
        """Make `connection` the session's: TLS, certificate, versions, secret, in this order."""
        by = min(time.monotonic() + self._patience_s, deadline)
        tls = connection
        try:
            set_tcp_options(connection, self._config)
            tls = self._context.wrap_socket(connection, do_handshake_on_connect=False)
            tls.settimeout(max(by - time.monotonic(), 0.001))
            client_handshake(tls, self._ticket.fingerprint)
            channel = Channel(tls, self._config.message_timeout_s)
            self._attempt += 1
            self._hello(channel, by)
        except TimeoutError:
            tls.close()
            raise ChannelLost("timeout", "it takes connections but does not answer") from None
        except OSError as error:
            tls.close()
            raise ChannelLost("closed", f"no TLS with it: {error.strerror or error}") from None
        except PeerError:
            tls.close()
            raise
        self._channel, self._address = channel, address
        self._close_left()
        self._welcomed = True
        self._connections += 1
        self._failures.pop(address, None)
        self._last_heard = time.monotonic()
        if self._pinger is None and not self._closed.is_set():
            self._pinger = start_thread(self._ping, name="mrc-exchange-ping")
        return channel

    def _hello(self, channel: Channel, by: float) -> None:
        greeting = channel.receive(by, by, limit=MAX_HELLO_BYTES)
        if greeting["type"] != "greeting" or member(greeting, "protocol", str) != PROTOCOL:
            raise SessionRefused(
                "the other end is no mrc receiver: take the ticket that mrc recv or mrc bench serve prints"
            )
        version = version_member(greeting)
        if version != VERSION:
            text = version_mismatch(VERSION, version)
            # So that the receiver knows too.
            with contextlib.suppress(ChannelLost):
                channel.send({"type": "refused", "reason": "version", "text": version_mismatch(version, VERSION)})
            raise SessionRefused(text)
        nonce = byte_member(greeting, "nonce", NONCE_BYTES)
        channel.send(
            {
                "type": "hello",
                "version": VERSION,
                "features": list(self._features),
                "session": self._session.hex(),
                "attempt": self._attempt,
                "resume": self._welcomed,
                "proof": proof(self._ticket.secret, self._ticket.fingerprint, nonce, self._session).hex(),
            }
        )
        reply = channel.receive(by, by)
        if reply["type"] == "refused":
            raise SessionRefused(member(reply, "text", str))
        if reply["type"] != "welcome":
            raise SessionRefused(
                "the other end is no mrc receiver: take the ticket that mrc recv or mrc bench serve prints"
            )
        self._peer_features = feature_member(greeting)

    def _ping(self) -> None:
        while not self._closed.wait(self._config.look_interval_s):
            # A request under way does a ping's work.
            if not self._turn.acquire(blocking=False):
                continue
            try:
                idle = time.monotonic() - self._last_heard
                # Without a connection: the last request or ping lost it, and found no other in its time.
                lost = self._channel is None or self._channel.is_readable()
                due = lost or idle >= self._config.ping_interval_s
                if due and not self._closed.is_set():
                    self._transact({"type": "ping"}, time.monotonic() + self._config.ping_interval_s)
            except SessionRefused as refused:
                self._lose(refused)
                return
            except (PeerError, CallerError):
                # The next request finds out for itself, and its caller gets the error.
                continue
            finally:
                self._turn.release()

    def _lose(self, refused: SessionRefused) -> None:
        """Note that there is no receiver any more, for the threads that do not ask. Not before there was one."""
        if self._welcomed and self._lost is None:
            self._lost = refused
            self._on_lost()

    def _drop(self, *, for_good: bool = False, too_slow: bool = False) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            if not for_good:
                # Or the receiver would take the end of this connection for that of this process.
                channel.send_soon({"type": "away"})
            self._close_left()
            if too_slow:
                self._left = channel
            else:
                channel.close()
        if for_good:
            self._close_left()

    def _close_left(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            left.close()

    def _tried(self) -> str:
        port = self._ticket.port
        return "; ".join(
            f"{f'[{address}]' if ':' in address else address}:{port}: {self._failures.get(address, 'not tried')}"
            for address in self._ticket.addresses
        )

    def _no_answer(self, kind: str, timeout: float, last: str) -> str:
        return (
            f"no answer to {kind!r} within {timeout:g} s ({last}). Tried {self._tried()}. "
            "Check that recv still runs and that one of these addresses can be reached from here"
        )
