"""The control for ranks in separate processes: TCP connections to each other rank on every plane, served by one
thread.

The kernel closes the connections of a process that ends, however it ends. It keeps those of a process that is stopped
or holds its interpreter, and answers keepalives for it. A partition of the network sends nothing, and this module
gives no rank up for it: how long to wait is up to the QPs. So a rank is gone when a connection was closed and its
process says nothing any more at any of the rank's addresses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mrc.collectives.control.connection import Connection, Peer, arrived, dialled, keep_alive
from mrc.collectives.control.listening import Listener, Listeners, Note
from mrc.collectives.control.secured import SECRET_BYTES, Secured, pair_key
from mrc.errors import PeerError, SystemRefused

# After a connection was closed, dial the rank's addresses. A rank that answers at none of them for so long is gone.
# The kernel takes connections for a process that is stopped, but also for one that is just ending, whose listening
# socket may be closed last. So only a word from the process, its nonce, says that it lives.
GONE_AFTER_S = 3.0
_DIAL_AGAIN_S = 0.5
_DIAL_TIMEOUT_S = 2.0
_HELLO_TIMEOUT_S = 5.0
# Time limit for delivering the last messages.
_FLUSH_S = 2.0
_LOOK_CLOSING_S = 0.002
_READ = 1 << 16
_MOST_WITHOUT_HELLO = 256


class TcpControl:
    """The control of one rank. `addresses`: this host's, one for each plane. Publish `document`, then `meet` the
    others."""

    def __init__(self, rank: int, addresses: Sequence[str]) -> None:
        self._rank = rank
        self._addresses = tuple(addresses)
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._listeners = Listeners()
        self._lock = threading.Lock()
        self._asked: deque[Callable[[], None]] = deque()
        self._peers: dict[int, Peer] = {}
        self._strangers: set[Connection] = set()
        self._heard: dict[int, int] = {}  # how many notes of each rank
        self._closing: float | None = None
        self._ended = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        try:
            self._server = socket.create_server(("::", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
        except OSError as error:
            os.close(self._wake)
            raise SystemRefused(error.errno, f"no port to listen on for other ranks: {error.strerror}") from None
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._hear_wake)
        self._thread = threading.Thread(target=self._run, name=f"mrc control {rank}", daemon=True)

    def document(self) -> dict[str, Any]:
        return {
            "addresses": list(self._addresses),
            "port": self._server.getsockname()[1],
            "secret": self._secret.hex(),
        }

    def meet(self, others: dict[int, Any]) -> None:
        """Connect to the other ranks, given their documents. Raises PeerError for a malformed document."""
        for rank, document in others.items():
            self._peers[rank] = self._peer(rank, document)
        self._thread.start()

    def _peer(self, rank: int, document: Any) -> Peer:
        try:
            addresses, port = [str(each) for each in document["addresses"]], int(document["port"])
            secret = bytes.fromhex(document["secret"])
        except (TypeError, KeyError, ValueError):
            raise PeerError(f"rank {rank} left no control address in the store") from None
        ours_first = self._rank < rank
        key = pair_key(self._secret, secret) if ours_first else pair_key(secret, self._secret)
        peer = Peer(addresses, port, key, ours_first)
        if ours_first:
            peer.dial_at = dict.fromkeys(range(len(addresses)), 0.0)
        return peer

    # ------------------------------------------------------------------ from any thread

    def listen(self, group: str, listener: Listener) -> None:
        self._ask(lambda: self._listeners.listen(group, listener))

    def forget(self, group: str) -> None:
        self._ask(lambda: self._listeners.forget(group))

    def say(self, rank: int, group: str, note: Note) -> None:
        self._ask(lambda: self._say(rank, note | {"group": group}))

    def close(self) -> None:
        self._ask(self._begin_to_close)
        if self._thread.ident is not None:
            self._thread.join()
        self._end()

    def _ask(self, action: Callable[[], None]) -> None:
        with self._lock:
            if self._closing is None or self._thread.is_alive():
                self._asked.append(action)
                with contextlib.suppress(OSError):
                    os.eventfd_write(self._wake, 1)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            known = self._selector.get_map()
            for key, events in self._selector.select(self._patience()):
                # An earlier event may have closed this connection.
                if known.get(key.fd) is key:
                    key.data(events)
            while self._asked:
                self._asked.popleft()()
            now = time.monotonic()
            if self._closing is not None and (now >= self._closing or self._all_is_said()):
                return
            self._look(now)

    def _patience(self) -> float | None:
        now = time.monotonic()
        if self._closing is not None:
            return _LOOK_CLOSING_S
        due: list[float] = []
        for rank, peer in self._peers.items():
            if self._listeners.is_gone(rank) or peer.left:
                continue
            due += peer.dial_at.values()
            due += [each.since + _DIAL_TIMEOUT_S for each in peer.connections.values() if not each.connected]
            due += peer.asking.values()
            if peer.doubted_since is not None and not peer.answered:
                due += [peer.doubted_since + GONE_AFTER_S, peer.doubt_at]
        due += [each.since + _HELLO_TIMEOUT_S for each in self._strangers]
        return max(0.0, min(due) - now) if due else None

    def _look(self, now: float) -> None:
        """Do what is due: dial, give up attempts, check closed connections."""
        for stranger in [each for each in self._strangers if now >= each.since + _HELLO_TIMEOUT_S]:
            self._drop_stranger(stranger)
        for rank, peer in self._peers.items():
            if self._listeners.is_gone(rank) or peer.left:
                continue
            for plane, due in list(peer.dial_at.items()):
                if now >= due:
                    del peer.dial_at[plane]
                    self._dial(rank, peer, plane)
            for connection in list(peer.connections.values()):
                if not connection.connected and now >= connection.since + _DIAL_TIMEOUT_S:
                    self._lose(connection, again=True)
            self._doubt(rank, peer, now)

    def _hear_wake(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    # ------------------------------------------------------------------ connections

    def _accept(self, _: int) -> None:
        with contextlib.suppress(OSError):
            sock, _address = self._server.accept()
            if len(self._strangers) >= _MOST_WITHOUT_HELLO:
                sock.close()
                return
            connection = Connection(sock, Secured(None, dials=False), None, 0)
            connection.connected = True
            self._strangers.add(connection)
            self._watch(connection)

    def _dial(self, rank: int, peer: Peer, plane: int) -> None:
        sock = dialled(peer.addresses[plane], peer.port)
        if sock is None:
            peer.dial_at[plane] = time.monotonic() + _DIAL_AGAIN_S
            return
        connection = Connection(sock, Secured(peer.key, dials=True), rank, plane)
        peer.connections[plane] = connection
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        sock = connection.sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(sock)
        events = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._selector.register(sock, events, lambda events: self._on_events(connection, events))

    def _on_events(self, connection: Connection, events: int) -> None:
        if connection.closed:
            # An earlier event of this round closed it.
            return
        try:
            if not connection.connected:
                self._on_dialled(connection)
            if connection.connected and events & selectors.EVENT_READ:
                self._read(connection)
            if connection.connected and not connection.closed:
                self._flush(connection)
        except PeerError:
            # The other end does not know the key.
            self._lose(connection, again=True)
        except OSError as error:
            self._on_lost(connection, error)

    def _on_dialled(self, connection: Connection) -> None:
        code = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        connection.connected = True
        self._greet(connection)

    def _greet(self, connection: Connection) -> None:
        """Send the hello, then all messages so far: some may have been lost with an earlier connection."""
        if connection.greeted or not connection.secured.ready or connection.rank is None:
            return
        connection.greeted = True
        if self._peers[connection.rank].dials:
            connection.unsent += connection.secured.seal({"rank": self._rank, "plane": connection.plane})
        for note in self._peers[connection.rank].said:
            connection.unsent += connection.secured.seal(note)

    def _flush(self, connection: Connection) -> None:
        if connection.unsent:
            sent = connection.sock.send(connection.unsent)
            del connection.unsent[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        known = self._selector.get_key(connection.sock)
        if known.events != events:
            self._selector.modify(connection.sock, events, known.data)

    def _read(self, connection: Connection) -> bool:
        """Read and handle messages. Returns whether there may be more."""
        try:
            data = connection.sock.recv(_READ)
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        secured = connection.secured
        secured.take(data)
        if connection.rank is None:
            self._identify(connection)
        self._greet(connection)
        while connection.rank is not None and (note := secured.open()) is not None:
            self._on_note(connection.rank, note)
            if self._peers[connection.rank].left:
                # The other end closes, too.
                self._lose(connection, again=False)
                return False
        return True

    def _read_rest(self, connection: Connection) -> None:
        """Read what the other end sent before the connection broke."""
        with contextlib.suppress(OSError, PeerError):
            while connection.connected and not connection.closed and self._read(connection):
                pass

    def _identify(self, connection: Connection) -> None:
        claim = connection.secured.peek()
        if claim is None:
            return
        rank, plane = claim.get("rank"), claim.get("plane")
        peer = self._peers.get(rank) if isinstance(rank, int) else None
        if peer is None or peer.dials or not isinstance(plane, int):
            raise PeerError("a stranger")
        connection.secured.key = peer.key
        connection.secured.open()
        self._strangers.discard(connection)
        connection.rank, connection.plane = rank, plane
        before = peer.connections.pop(plane, None)
        if before is not None:
            self._discard(before)
        peer.connections[plane] = connection
        self._trust(peer)

    def _on_note(self, rank: int, note: Note) -> None:
        peer = self._peers[rank]
        number = note.get("number")
        # Every plane carries all messages.
        if isinstance(number, int) and number == self._heard.get(rank, 0):
            self._heard[rank] = number + 1
            if note.get("leaves"):
                peer.left = True
            else:
                self._listeners.hear(rank, str(note.get("group")), note)

    def _say(self, rank: int, note: Note) -> None:
        peer = self._peers.get(rank)
        if peer is None or self._listeners.is_gone(rank):
            return
        note = note | {"number": len(peer.said)}
        peer.said.append(note)
        for connection in list(peer.connections.values()):
            if connection.greeted:
                connection.unsent += connection.secured.seal(note)
                try:
                    self._flush(connection)
                except OSError as error:
                    self._on_lost(connection, error)

    # ------------------------------------------------------------------ who is gone

    def _on_lost(self, connection: Connection, error: OSError) -> None:
        rank = connection.rank
        if rank is None:
            self._drop_stranger(connection)
            return
        self._read_rest(connection)
        if connection.closed:
            return
        refused = error.errno == errno.ECONNREFUSED
        closed = error.errno in (errno.ECONNRESET, errno.EPIPE)
        self._lose(connection, again=True)
        peer = self._peers[rank]
        if self._closing is not None:
            # The rank has read that this one leaves, or is gone. Either way no message is left to deliver.
            peer.left = True
        if peer.left:
            return
        if refused:
            self._gone(rank, "nobody listens at its address any more: its process has ended")
        elif closed and peer.doubted_since is None:
            peer.doubted_since = time.monotonic()
            peer.doubt_at = 0.0
            self._doubt(rank, peer, time.monotonic())

    def _doubt(self, rank: int, peer: Peer, now: float) -> None:
        """Dial all addresses of a rank to find out whether its process still listens."""
        for sock in [sock for sock, due in peer.asking.items() if now >= due]:
            self._stop_asking(peer, sock)
        if peer.doubted_since is None or peer.answered:
            return
        if now >= peer.doubted_since + GONE_AFTER_S:
            self._gone(rank, "its connection closed, and none of its addresses answers")
            return
        if now < peer.doubt_at:
            return
        peer.doubt_at = now + _DIAL_AGAIN_S
        for address in peer.addresses:
            asking = dialled(address, peer.port)
            if asking is not None:
                self._ask_there(rank, peer, asking, now)

    def _ask_there(self, rank: int, peer: Peer, sock: socket.socket, now: float) -> None:
        keep_alive(sock)
        peer.asking[sock] = now + _DIAL_TIMEOUT_S
        self._selector.register(sock, selectors.EVENT_WRITE, lambda _: self._on_asked(rank, peer, sock))

    def _on_asked(self, rank: int, peer: Peer, sock: socket.socket) -> None:
        if sock in peer.answered:
            self._on_word(rank, peer, sock)
            return
        if sock not in peer.asking:
            # An earlier event of this round settled it.
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code and not peer.left:
            del peer.asking[sock]
            peer.answered.add(sock)
            known = self._selector.get_key(sock)
            self._selector.modify(sock, selectors.EVENT_READ, known.data)
            return
        self._stop_asking(peer, sock)
        if code == errno.ECONNREFUSED and not peer.left:
            self._gone(rank, "its connection closed, and nobody listens at its address any more: its process has ended")

    def _on_word(self, rank: int, peer: Peer, sock: socket.socket) -> None:
        """Its process says something, and lives; or its kernel has closed the connection, and it is asked again."""
        try:
            lives = bool(sock.recv(1))
        except BlockingIOError:
            return
        except OSError:
            lives = False
        self._stop_asking(peer, sock)
        if lives:
            self._trust(peer)
        elif not peer.left and not peer.answered:
            peer.doubted_since = time.monotonic()
            self._doubt(rank, peer, peer.doubted_since)

    def _stop_asking(self, peer: Peer, sock: socket.socket) -> None:
        peer.asking.pop(sock, None)
        peer.answered.discard(sock)
        self._selector.unregister(sock)
        sock.close()

    def _trust(self, peer: Peer) -> None:
        """Its process lives, or is known to be gone: it need not be asked."""
        peer.doubted_since = None
        for sock in [*peer.asking, *peer.answered]:
            self._stop_asking(peer, sock)

    def _gone(self, rank: int, why: str) -> None:
        peer = self._peers[rank]
        self._trust(peer)
        for connection in list(peer.connections.values()):
            self._lose(connection, again=False)
        peer.dial_at.clear()
        self._listeners.gone(rank, why)

    # ------------------------------------------------------------------ ends

    def _lose(self, connection: Connection, *, again: bool) -> None:
        """Drop a broken connection. `again`: dial once more, if this rank dialled it."""
        self._discard(connection)
        if connection.rank is None:
            self._strangers.discard(connection)
            return
        peer = self._peers[connection.rank]
        if peer.connections.get(connection.plane) is connection:
            del peer.connections[connection.plane]
        if again and peer.dials and not peer.left:
            peer.dial_at[connection.plane] = time.monotonic() + _DIAL_AGAIN_S

    def _drop_stranger(self, connection: Connection) -> None:
        self._strangers.discard(connection)
        self._discard(connection)

    def _discard(self, connection: Connection) -> None:
        connection.closed = True
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        connection.sock.close()

    def _begin_to_close(self) -> None:
        for rank in self._peers:
            self._say(rank, {"leaves": True})
        self._closing = time.monotonic() + _FLUSH_S

    def _all_is_said(self) -> bool:
        """Return whether each rank's kernel has acknowledged all messages on at least one plane."""
        for rank, peer in self._peers.items():
            if peer.left or self._listeners.is_gone(rank):
                continue
            if not any(each.greeted and not each.unsent and arrived(each.sock) for each in peer.connections.values()):
                return False
        return True

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for peer in self._peers.values():
            self._trust(peer)
            for connection in list(peer.connections.values()):
                self._discard(connection)
        for stranger in list(self._strangers):
            self._discard(stranger)
        self._selector.close()
        self._server.close()
        os.close(self._wake)
