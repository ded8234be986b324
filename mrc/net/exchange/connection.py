# SPDX-License-Identifier: BSD-2-Clause
"""One connection at the server, from its TLS handshake to its end, in a thread of its own."""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.net.exchange.channel import Channel, ChannelLost
from mrc.net.exchange.config import MAX_HELLO_BYTES, ExchangeConfig
from mrc.net.exchange.counters import Counters
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
from mrc.net.exchange.session import Execution, Session, SessionInfo, SessionTable
from mrc.threads import start_thread
from mrc.untrusted import quoted

Handler = Callable[[SessionInfo, str, dict[str, Any]], dict[str, Any]]

_log = logging.getLogger("mrc.net.exchange")


@dataclass(frozen=True, slots=True)
class Service:
    """What all connections of a server share."""

    config: ExchangeConfig
    fingerprint: bytes
    secret: bytes
    features: tuple[str, ...]
    handler: Handler
    sessions: SessionTable
    counters: Counters
    closing: threading.Event


class Refusal(Exception):
    """This connection ends here, and the client gets the reason. `counter` counts it."""

    def __init__(self, reason: str, text: str, counter: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.counter = counter


class Connection:
    """A client's connection. `busy` is true while a request is executed or answered, `stranger` until the secret is
    shown; `given_up` is the server's note that it was interrupted to make room."""

    def __init__(self, service: Service, tls: ssl.SSLSocket, peer_address: str) -> None:
        self.peer_address = peer_address
        self.busy = False
        self.stranger = True
        self.given_up = False
        self._interrupted = False
        self._service = service
        self._tls = tls
        self._channel = Channel(tls, service.config.message_timeout_s)
        self._notes = _Notes(self._channel, service.config, self._client_ended)
        self._session: Session | None = None
        self._attempt = 0

    def interrupt(self) -> None:
        self._interrupted = True
        self._channel.interrupt()

    def run(self) -> None:
        """Serve the client until it leaves, is refused, falls silent, or is interrupted; none of that raises."""
        counters = self._service.counters
        ended = False
        try:
            self._session = session = self._admit()
            self._serve(session)
        except ChannelLost as lost:
            ended = lost.reason == "ended" and not self._interrupted
            if lost.reason == "timeout":
                counters.count("timeouts")
            elif lost.reason == "malformed":
                counters.count("bad_messages")
        except PeerError:
            counters.count("bad_messages")
        finally:
            self.busy = False
            self._notes.close()
            self._channel.close()
            if self._session is not None:
                self._service.sessions.detach(self._session, self._attempt, ended=ended)

    def _client_ended(self) -> None:
        """The client's process is over, and a request of it is still being executed."""
        if self._session is not None and not self._interrupted:
            self._service.sessions.detach(self._session, self._attempt, ended=True)

    def _admit(self) -> Session:
        by = time.monotonic() + self._service.config.handshake_timeout_s
        self._handshake()
        nonce = secrets.token_bytes(NONCE_BYTES)
        greeting = {
            "type": "greeting",
            "protocol": PROTOCOL,
            "version": VERSION,
            "features": list(self._service.features),
            "nonce": nonce.hex(),
        }
        self._channel.send(greeting)
        hello = self._channel.receive(first_by=by, whole_by=by, limit=MAX_HELLO_BYTES)
        try:
            session = self._check_hello(hello, nonce)
        except Refusal as refusal:
            self._service.counters.count(refusal.counter)
            self._channel.send({"type": "refused", "reason": refusal.reason, "text": str(refusal)})
            raise ChannelLost("closed", str(refusal)) from None
        try:
            self._channel.send({"type": "welcome"})
        except ChannelLost:
            self._service.sessions.detach(session, self._attempt)
            raise
        return session

    def _handshake(self) -> None:
        self._tls.settimeout(self._service.config.handshake_timeout_s)
        try:
            self._tls.do_handshake()
        except TimeoutError:
            raise ChannelLost("timeout", "no TLS handshake in time") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError) as error:
            # A client that got through at another of the addresses first, or somebody looking for open ports.
            self._service.counters.count("abandoned_handshakes")
            raise ChannelLost("closed", f"no TLS handshake: {error}") from None
        except OSError as error:
            self._service.counters.count("bad_handshakes")
            raise ChannelLost("closed", f"no TLS handshake: {error}") from None

    def _check_hello(self, hello: Message, nonce: bytes) -> Session:
        service = self._service
        # A client of another version says so in the one other message all versions share.
        if hello["type"] == "refused" and hello.get("reason") == "version":
            service.counters.count("version_mismatches")
            raise ChannelLost("closed", "the client speaks another version")
        if hello["type"] != "hello":
            raise PeerError("the client did not say hello")
        version = version_member(hello)
        if version != VERSION:
            raise Refusal("version", version_mismatch(version, VERSION), "version_mismatches")
        token = byte_member(hello, "session", SESSION_BYTES)
        shown = byte_member(hello, "proof", 32)
        if not hmac.compare_digest(shown, proof(service.secret, service.fingerprint, nonce, token)):
            # Guessing is hopeless at any speed; this only keeps a loop gone wrong from taking the processor.
            service.closing.wait(service.config.bad_secret_pause_s)
            raise Refusal(
                "secret",
                "the receiver does not know this ticket's secret: take the ticket that it prints now",
                "bad_secrets",
            )
        attempt, resume = member(hello, "attempt", int), member(hello, "resume", bool)
        features = feature_member(hello)
        self.stranger = False
        try:
            session = service.sessions.attach(token, attempt, resume, self.peer_address, features, self.interrupt)
        except PeerError as error:
            raise Refusal("session", str(error), "refused_sessions") from None
        self._attempt = attempt
        return session

    def _serve(self, session: Session) -> None:
        while not self._service.closing.is_set():
            message = self._channel.receive()
            if message["type"] == "request":
                self.busy = True
                self._request(session, message)
                self.busy = False
            elif message["type"] == "away":
                return
            elif message["type"] == "ping":
                self._channel.send({"type": "pong"})
            elif message["type"] == "bye":
                self._channel.send({"type": "bye"})
                self._service.sessions.close(session, "client")
                return
            else:
                raise PeerError(f"a client does not send {quoted(message['type'])}")

    def _request(self, session: Session, message: Message) -> None:
        counters, interval = self._service.counters, self._service.config.working_interval_s
        request_id, kind, body = member(message, "id", int), member(message, "kind", str), member(message, "body", dict)
        try:
            execution, ours = session.begin(request_id)
        except PeerError as error:
            counters.count("stale_requests")
            self._channel.send(_error_reply(request_id, error))
            return
        working = {"type": "working", "id": request_id}
        if ours:
            counters.count("requests")
            with self._notes.during(working):
                self._execute(session, execution, request_id, kind, body)
        else:
            counters.count("replayed_requests")
            while not execution.done.wait(interval):
                self._channel.send(working)
        self._channel.send(execution.reply)

    def _execute(
        self, session: Session, execution: Execution, request_id: int, kind: str, body: dict[str, Any]
    ) -> None:
        """Call the handler and keep what it answers. Whatever happens in it, the client gets an answer."""
        try:
            answer = self._service.handler(session.info, kind, body)
            if not isinstance(answer, dict):
                raise CallerError(f"the handler of {kind!r} answered {type(answer).__name__}, a dict is expected")
            reply: Message = {"type": "answer", "id": request_id, "body": answer}
            # Now, so that an answer that cannot be written is an answer that says so.
            encode(reply)
        except MrcError as error:
            self._service.counters.count("handler_errors")
            reply = _error_reply(request_id, error)
        except Exception as error:
            # A fault of this program, not of the client's: its details belong here, not on the wire.
            self._service.counters.count("handler_failures")
            _log.exception("the handler of %s failed", quoted(kind))
            text = f"the receiver failed on {quoted(kind)} ({type(error).__name__}): see its output"
            reply = _error_reply(request_id, PeerError(text))
        execution.finish(reply)


class _Notes:
    """Tells the client every `working_interval_s` that its request is being worked on, while it is. Close it.

    Where the client's process is over meanwhile, `on_ended` is called, once: the request may take long.

    Consecutive requests share a thread, which ends after an interval without a request. If the system refuses the
    thread, no notes are sent: the client times out and retries, and the connection of the retry sends them.
    """

    def __init__(self, channel: Channel, config: ExchangeConfig, on_ended: Callable[[], None]) -> None:
        self._channel = channel
        self._interval_s = config.working_interval_s
        self._look_s = min(config.ended_look_s, config.working_interval_s)
        self._on_ended = on_ended
        # Held while a note is sent: the connection's thread may receive again only when no other thread can be sending.
        self._lock = threading.Lock()
        self._note: Message | None = None
        self._due = 0.0
        self._requests = 0
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    @contextlib.contextmanager
    def during(self, note: Message) -> Iterator[None]:
        """While its block runs the client is sent `note`."""
        with self._lock:
            self._note, self._due = note, time.monotonic() + self._interval_s
            self._requests += 1
            if self._thread is None:
                with contextlib.suppress(SystemRefused):
                    self._thread = start_thread(self._run, name="mrc-exchange-working")
        try:
            yield
        finally:
            with self._lock:
                self._note = None

    def close(self) -> None:
        """Send no more."""
        self._over.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        seen, idle_at = 0, 0.0
        pause_s = self._look_s
        while not self._over.wait(pause_s):
            with self._lock:
                now = time.monotonic()
                if self._note is not None or self._requests != seen:
                    seen, idle_at = self._requests, now + self._interval_s
                if now >= idle_at or (self._note is not None and not self._look(self._note, now)):
                    self._thread = None
                    return
                pause_s = self._look_s if self._note is None else min(self._look_s, max(self._due - now, 0))

    def _look(self, note: Message, now: float) -> bool:
        """Send a note that is due. Returns whether the connection lives."""
        if self._channel.has_ended():
            self._on_ended()
            return False
        if now >= self._due:
            try:
                self._channel.send(note)
            except ChannelLost:
                return False
            self._due = now + self._interval_s
        return True


def _error_reply(request_id: int, error: MrcError) -> Message:
    # A text goes on the wire whole where it can; one beyond all reason must not become an answer that cannot be sent.
    return {"type": "error", "id": request_id, "error_class": type(error).__name__, "text": str(error)[:10_000]}
