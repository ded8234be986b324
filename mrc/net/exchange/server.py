# SPDX-License-Identifier: BSD-2-Clause
"""The receiver's side: listen, make the ticket, give each connection a thread."""

from __future__ import annotations

import errno
import ipaddress
import secrets
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence

from mrc.errors import CallerError, SystemRefused
from mrc.net.exchange.channel import set_tcp_options
from mrc.net.exchange.config import DEFAULT_EXCHANGE_CONFIG, ExchangeConfig
from mrc.net.exchange.connection import Connection, Handler, Service
from mrc.net.exchange.counters import Counters
from mrc.net.exchange.session import SessionInfo, SessionTable
from mrc.net.exchange.tls import make_identity
from mrc.net.ticket import SECRET_BYTES, Ticket
from mrc.threads import start_thread

# An interrupted connection ends at once. This is for a machine that has other things to do, s.
_MAKE_WAY_S = 1.0


class ExchangeServer:
    """The out-of-band exchange of a receiver (architecture.md, "Out-of-band exchange").

    `addresses`: what to bind, IPv6 or IPv4, none for `::`, which takes IPv4 too. `advertised`: the addresses for the
    ticket, one a plane in order of preference; by default what is bound. `port`: TCP, 0 for any free one.

    `handler(session, kind, body) -> dict` carries out one request, in the thread of the connection it came by, so
    requests of different sessions run at the same time, and so does one that follows a request its client gave up. It
    is called once per request however often that is sent. An MrcError it raises goes to the client as text.

    `on_session_closed(session)` is called once for each session: when its client says goodbye, when it has had no
    connection for `linger_s`, or in `close`. It may come from any thread, and while a request of that session
    that its client gave up is still in the handler.

    The ticket's secret admits any number of clients, until `close`. A new server has a new certificate and secret.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        handler: Handler,
        *,
        advertised: Sequence[str] | None = None,
        port: int = 0,
        features: Sequence[str] = (),
        on_session_closed: Callable[[SessionInfo], None] | None = None,
        config: ExchangeConfig = DEFAULT_EXCHANGE_CONFIG,
    ) -> None:
        self._addresses = tuple(addresses) or ("::",)
        self._advertised = tuple(advertised) if advertised is not None else self._addresses
        self._port = port
        self._features = tuple(features)
        self._handler = handler
        self._config = config
        self._counters = Counters()
        self._sessions = SessionTable(config, self._counters, on_session_closed)
        self._ticket: Ticket | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[socket.socket] = []
        self._connections: dict[Connection, threading.Thread] = {}
        self._acceptor: threading.Thread | None = None
        self._wake: socket.socket | None = None

    @property
    def ticket(self) -> Ticket:
        """Raises CallerError before `start`."""
        if self._ticket is None:
            raise CallerError("the exchange has no ticket before start()")
        return self._ticket

    @property
    def counters(self) -> dict[str, int]:
        """How often each thing of COUNTERS has happened, by name."""
        return self._counters.snapshot()

    def start(self) -> ExchangeServer:
        """Listen and serve, in threads. Raises SystemRefused for an address that cannot be bound and where the system
        allows no threads, CallerError for an address nobody could connect to, and when called twice or after `close`.
        """
        if self._ticket is not None or self._closing.is_set():
            raise CallerError("an exchange is started once: make another")
        identity = make_identity()
        self._listeners = _listen(self._addresses, self._port)
        try:
            port = self._listeners[0].getsockname()[1]
            ticket = Ticket(self._advertised, port, identity.fingerprint, secrets.token_bytes(SECRET_BYTES))
        except CallerError:
            self._close_listeners()
            raise
        service = Service(
            self._config,
            ticket.fingerprint,
            ticket.secret,
            self._features,
            self._handler,
            self._sessions,
            self._counters,
            self._closing,
        )
        # Closing one end wakes the thread that accepts, which waits at the other.
        self._wake, woken = socket.socketpair()
        try:
            self._sessions.start()
            self._acceptor = start_thread(self._accept, service, identity.context, woken, name="mrc-exchange-accept")
        except SystemRefused:
            self._sessions.stop()
            self._close_listeners()
            self._wake.close()
            woken.close()
            raise
        self._ticket = ticket
        return self

    def close(self) -> None:
        """Stop accepting, let requests under way finish for `close_grace_s`, end all connections and sessions.

        Close only after `on_session_closed` where a client's last answer matters: it may still have to ask for it again
        over another plane. May be called again. A handler that calls it gets no answer out.
        """
        self._closing.set()
        with self._lock:
            acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None and self._wake is not None:
            self._wake.close()
            acceptor.join()
            self._close_listeners()
        by = time.monotonic() + self._config.close_grace_s
        with self._lock:
            connections = dict(self._connections)
        connections = {each: thread for each, thread in connections.items() if thread is not threading.current_thread()}
        for connection in connections:
            if not connection.busy:
                connection.interrupt()
        for connection, thread in connections.items():
            thread.join(max(by - time.monotonic(), 0))
            if thread.is_alive():
                connection.interrupt()
        self._sessions.stop()

    def __enter__(self) -> ExchangeServer:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _accept(self, service: Service, context: ssl.SSLContext, woken: socket.socket) -> None:
        with woken, selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ, data=listener)
            while not self._closing.is_set():
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    try:
                        accepted, peer = key.data.accept()
                    except BlockingIOError:
                        continue
                    except OSError as error:
                        # Out of descriptors or memory: the connection waits in the backlog, this thread must not spin.
                        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                            self._closing.wait(0.1)
                        continue
                    self._take(service, context, accepted, peer[0])

    def _take(self, service: Service, context: ssl.SSLContext, accepted: socket.socket, peer_address: str) -> None:
        self._counters.count("connections")
        if not self._has_room():
            self._counters.count("refused_full")
            accepted.close()
            return
        try:
            accepted.setblocking(True)
            set_tcp_options(accepted, self._config)
            tls = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        except OSError:
            # Gone again already.
            self._counters.count("abandoned_handshakes")
            accepted.close()
            return
        connection = Connection(service, tls, peer_address.removeprefix("::ffff:"))
        if not self._serve(connection) and not (self._make_way(wait=True) and self._serve(connection)):
            # Those who hold all threads that there may be have shown the ticket.
            self._counters.count("refused_full")
            tls.close()

    def _serve(self, connection: Connection) -> bool:
        """Give a connection its thread. False where the system allows no more of them."""
        with self._lock:
            try:
                thread = start_thread(self._run, connection, name=f"mrc-exchange-{connection.peer_address}")
            except SystemRefused:
                return False
            self._connections[connection] = thread
        return True

    def _has_room(self) -> bool:
        """Whether one more connection can be taken. When all places are taken the stranger that has been at it longest
        gives way: a client with the ticket needs a moment only, so that those who dawdle cannot lock it out."""
        with self._lock:
            if len(self._connections) < self._config.max_connections:
                return True
            # Those given up already, but not over yet, take places too: there are never more than twice as many.
            if len(self._connections) >= 2 * self._config.max_connections:
                return False
        return self._make_way()

    def _make_way(self, wait: bool = False) -> bool:
        """End the connection of the stranger that has been at it longest, and `wait` until its thread is free. False
        where there is none."""
        with self._lock:
            stranger = next((each for each in self._connections if each.stranger and not each.given_up), None)
            if stranger is None:
                return False
            stranger.given_up = True
            thread = self._connections[stranger]
        self._counters.count("displaced_strangers")
        stranger.interrupt()
        if wait:
            thread.join(_MAKE_WAY_S)
        return True

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []


def _listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """A listening socket per address, all on one port. Raises SystemRefused or CallerError."""
    # A free port of the first address may be taken at another: then another port is tried.
    tries = 1 if port else 20
    for left in reversed(range(tries)):
        listeners: list[socket.socket] = []
        chosen = port
        try:
            for address in addresses:
                listeners.append(_bind(address, chosen, dual=len(addresses) == 1))
                chosen = listeners[0].getsockname()[1]
        except OSError as error:
            for listener in listeners:
                listener.close()
            if left and listeners and error.errno == errno.EADDRINUSE:
                continue
            raise SystemRefused(
                f"cannot listen on {address} port {chosen}: {error.strerror or error}; give an address of this host "
                "and a port nobody else listens on"
            ) from None
        return listeners
    raise SystemRefused(f"no port is free at all of {', '.join(addresses)}: name one")


def _bind(address: str, port: int, dual: bool) -> socket.socket:
    try:
        version = ipaddress.ip_address(address).version
    except ValueError as error:
        raise CallerError(f"cannot listen on {address!r}: {error}") from None
    listener = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if version == 6:
            # Beside an IPv4 address of its own, :: must leave IPv4 alone.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        listener.bind((address, port))
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
