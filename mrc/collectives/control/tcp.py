# SPDX-License-Identifier: BSD-2-Clause
"""The control for ranks in separate processes: TCP connections to each other process on every plane, served by one
thread.

The kernel closes the connections of a process that ends, however it ends. It keeps those of a process that is stopped
or holds its interpreter, and answers keepalives for it. A partition of the network sends nothing, and this module
gives no process up for it: how long to wait is up to the QPs. So a process is gone when a connection was closed and it
says nothing any more at any of its addresses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import selectors
import socket
import time
from collections.abc import Sequence

from mrc.collectives.control.channel import SECRET_BYTES, Dialled, Dialling
from mrc.collectives.control.connection import Connection, Peer, arrived, dialled, peer_of, prepare
from mrc.collectives.control.listening import Contact, Listener, Listeners, Note
from mrc.collectives.control.loop import Loop
from mrc.errors import PeerError
from mrc.net.exchange.messages import Message, member
from mrc.net.exchange.tls import make_identity

# After a connection was closed, dial the process's addresses. One that answers at none of them for so long is gone.
# The kernel takes connections for a process that is stopped, but also for one that is just ending, whose listening
# socket may be closed last. So only a word from the process, its part of TLS, says that it lives.
GONE_AFTER_S = 3.0
_DIAL_AGAIN_S = 0.5
_DIAL_TIMEOUT_S = 2.0
# The end that is to be dialled dials all the same when nobody has for so long: the other may not know of it yet.
_DIAL_INSTEAD_S = 0.3
_HELLO_TIMEOUT_S = 5.0
# Time limit for delivering the last messages.
_FLUSH_S = 2.0
_LOOK_CLOSING_S = 0.002
_READ = 1 << 16
_MOST_UNSENT = 1 << 16
_MOST_WITHOUT_HELLO = 256


class TcpControl:
    """The control of one process. `addresses`: this host's, one for each plane.

    Raises SystemRefused where there is no port to listen on, or no thread.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._process = secrets.token_hex(16)
        self._addresses = tuple(addresses)
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._identity = make_identity()
        self._listeners = Listeners()
        self._peers: dict[str, Peer] = {}
        self._strangers: dict[Connection, None] = {}  # the one that has been here longest first
        self._closing: float | None = None
        self._loop = Loop(self._accept, self._due, self._look, self._failed)
        self._contact: Contact = {
            "process": self._process,
            "addresses": list(self._addresses),
            "port": self._loop.port,
            "fingerprint": self._identity.fingerprint.hex(),
            "secret": self._secret.hex(),
        }
        self._loop.start()

    @property
    def contact(self) -> Contact:
        return self._contact

    # ------------------------------------------------------------------ from any thread

    def listen(self, inbox: str, listener: Listener) -> None:
        self._listeners.listen(inbox, listener)

    def forget(self, inbox: str) -> None:
        self._listeners.forget(inbox)

    def meet(self, contact: Contact) -> str:
        peer = peer_of(contact, self._process)
        if peer.process != self._process:
            self._loop.ask(lambda: self._add(peer))
        return peer.process

    def say(self, process: str, inbox: str, note: Note) -> None:
        if process == self._process:
            self._loop.ask(lambda: self._listeners.hear(process, inbox, note))
        else:
            self._loop.ask(lambda: self._say(process, {"to": inbox, "note": note}))

    def close(self) -> None:
        self._loop.ask(self._begin_to_close)
        self._loop.close()

    # ------------------------------------------------------------------ the loop's thread

    def _failed(self, error: Exception) -> None:
        """Nobody would learn any more that a rank has ended: let the groups fail."""
        self._listeners.broken(f"this process's control failed: {type(error).__name__}: {error}")

    def _due(self) -> float | None:
        """When to look next if nothing happens."""
        if self._closing is not None:
            return time.monotonic() + _LOOK_CLOSING_S
        due: list[float] = []
        for peer in self._present():
            due += peer.dial_at.values()
            due += [each.since + _DIAL_TIMEOUT_S for each in peer.connections if not each.connected]
            if peer.doubted_since is not None and not any(each.connected for each in peer.connections):
                due.append(peer.doubted_since + GONE_AFTER_S)
        if self._strangers:
            due.append(next(iter(self._strangers)).since + _HELLO_TIMEOUT_S)
        return min(due, default=None)

    def _present(self) -> list[Peer]:
        return [each for each in self._peers.values() if not each.left and not self._listeners.is_gone(each.process)]

    def _look(self, now: float) -> bool:
        """Do what is due: dial, give up attempts, give up processes that say nothing. Returns whether it is over."""
        if self._closing is not None and (now >= self._closing or self._all_is_said()):
            return True
        for stranger in [each for each in self._strangers if now >= each.since + _HELLO_TIMEOUT_S]:
            self._discard(stranger)
        for peer in self._present():
            for plane, due in list(peer.dial_at.items()):
                if now >= due:
                    del peer.dial_at[plane]
                    if not peer.on_plane(plane):
                        self._dial(peer, plane)
            for connection in list(peer.connections):
                if not connection.connected and now >= connection.since + _DIAL_TIMEOUT_S:
                    self._lose(connection)
            doubted = peer.doubted_since
            if doubted is not None and now >= doubted + GONE_AFTER_S and not any(e.connected for e in peer.connections):
                self._gone(peer, "its connection closed, and none of its addresses answers")
        return False

    # ------------------------------------------------------------------ connections

    def _add(self, peer: Peer) -> Peer:
        """Take a process among those that are connected to, unless it is one of them."""
        known = self._peers.setdefault(peer.process, peer)
        if known is peer:
            first = time.monotonic() + (0.0 if peer.dials else _DIAL_INSTEAD_S)
            peer.dial_at = dict.fromkeys(range(len(peer.addresses)), first)
        return known

    def _accept(self, sock: socket.socket) -> None:
        if len(self._strangers) >= _MOST_WITHOUT_HELLO:
            # A rank needs a moment only: those who dawdle cannot lock it out.
            self._discard(next(iter(self._strangers)))
        connection = Connection(sock, Dialled(self._identity, self._secret), None, 0)
        connection.connected = True
        self._strangers[connection] = None
        self._watch(connection)

    def _dial(self, peer: Peer, plane: int) -> None:
        sock = dialled(peer.addresses[plane], peer.port)
        if isinstance(sock, int):
            if sock == errno.ECONNREFUSED:
                self._on_refused(peer)
            else:
                self._dial_again(peer, plane)
            return
        channel = Dialling(peer.fingerprint, peer.secret, self._contact, plane)
        connection = Connection(sock, channel, peer, plane)
        peer.connections.append(connection)
        self._watch(connection)

    def _dial_again(self, peer: Peer, plane: int) -> None:
        peer.dial_at[plane] = time.monotonic() + _DIAL_AGAIN_S + (0.0 if peer.dials else _DIAL_INSTEAD_S)

    def _watch(self, connection: Connection) -> None:
        try:
            prepare(connection.sock)
        except OSError:
            # Gone again already, which reading finds.
            connection.sock.setblocking(False)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.dialled else 0)
        try:
            self._loop.watch(connection.sock, events, lambda events: self._on_events(connection, events))
        except OSError:
            # No memory for one more, or too many are watched: as if it had broken.
            self._lose(connection)

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
            self._on_wrong(connection)
        except OSError as error:
            self._on_lost(connection, error)

    def _on_dialled(self, connection: Connection) -> None:
        code = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        connection.connected = True
        assert isinstance(connection.channel, Dialling)
        connection.channel.begin()

    def _read(self, connection: Connection) -> bool:
        """Read and handle messages. Returns whether there may be more."""
        try:
            data = connection.sock.recv(_READ)
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        connection.channel.receive(data)
        if connection.peer is not None and connection.channel.shaken:
            # Its process says something, and lives.
            connection.peer.doubted_since = None
        for message in connection.channel.messages():
            if connection.peer is None:
                self._identify(connection)
            self._on_message(connection, message)
            if connection.closed:
                return False
        if connection.peer is None and connection.channel.ready:
            self._identify(connection)
        return True

    def _identify(self, connection: Connection) -> None:
        """A stranger has shown that it knows the secret, and who it is."""
        channel = connection.channel
        assert isinstance(channel, Dialled)
        peer = self._add(peer_of(channel.contact, self._process))
        del self._strangers[connection]
        connection.peer, connection.plane = peer, channel.plane
        peer.connections.append(connection)
        peer.doubted_since = None

    def _on_message(self, connection: Connection, message: Message) -> None:
        peer = connection.peer
        assert peer is not None
        if message["type"] == "heard":
            peer.confirm(member(message, "count", int))
        elif message["type"] == "leaves":
            peer.left = True
            # The other end closes, too.
            for each in list(peer.connections):
                self._lose(each)
        elif message["type"] == "note" and member(message, "number", int) == peer.heard:
            # Every plane carries all messages.
            peer.heard += 1
            connection.channel.send({"type": "heard", "count": peer.heard})
            self._listeners.hear(peer.process, member(message, "to", str), member(message, "note", dict))

    def _flush(self, connection: Connection) -> None:
        """Send what there is to say, as far as the kernel takes it."""
        channel, peer = connection.channel, connection.peer
        while True:
            if peer is not None and connection.ready:
                connection.said = max(connection.said, peer.first)
                while connection.said < peer.first + len(peer.said) and len(connection.unsent) < _MOST_UNSENT:
                    note = peer.said[connection.said - peer.first]
                    channel.send(note if "type" in note else {"type": "note", "number": connection.said, **note})
                    connection.said += 1
                    connection.unsent += channel.take_outgoing()
            connection.unsent += channel.take_outgoing()
            if not connection.unsent:
                break
            try:
                sent = connection.sock.send(connection.unsent)
            except BlockingIOError:
                break
            del connection.unsent[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        self._loop.change(connection.sock, events)

    def _say(self, process: str, note: Note) -> None:
        peer = self._peers.get(process)
        if peer is None or peer.left or self._listeners.is_gone(process):
            return
        peer.said.append(note)
        for connection in list(peer.connections):
            if connection.ready:
                try:
                    self._flush(connection)
                except OSError as error:
                    self._on_lost(connection, error)

    # ------------------------------------------------------------------ who is gone

    def _on_wrong(self, connection: Connection) -> None:
        """The other end is not the process it should be, or does not keep to what ranks say."""
        peer, strange = connection.peer, connection.dialled and not connection.channel.ready
        self._lose(connection)
        if peer is not None and strange and not peer.left:
            self._gone(peer, "another process listens at its address: its process has ended")

    def _on_lost(self, connection: Connection, error: OSError) -> None:
        peer = connection.peer
        if peer is None:
            self._discard(connection)
            return
        was_connected = connection.connected
        with contextlib.suppress(OSError, PeerError):
            # What the other end sent before the connection broke.
            while connection.connected and not connection.closed and self._read(connection):
                pass
        self._lose(connection)
        if self._closing is not None:
            # The process has read that this one leaves, or is gone. Either way no message is left to deliver.
            peer.left = True
        if peer.left:
            return
        if error.errno == errno.ECONNREFUSED:
            self._on_refused(peer)
        elif was_connected and error.errno in (errno.ECONNRESET, errno.EPIPE):
            # Ask at all its addresses at once whether it lives.
            peer.doubted_since = time.monotonic()
            again = peer.doubted_since + (0.0 if connection.channel.shaken else _DIAL_AGAIN_S)
            for plane in range(len(peer.addresses)):
                peer.dial_at[plane] = again

    def _on_refused(self, peer: Peer) -> None:
        self._gone(peer, "nobody listens at its address any more: its process has ended")

    def _gone(self, peer: Peer, why: str) -> None:
        for connection in list(peer.connections):
            self._lose(connection)
        peer.dial_at.clear()
        peer.said.clear()
        self._listeners.gone(peer.process, why)

    # ------------------------------------------------------------------ ends

    def _lose(self, connection: Connection) -> None:
        """Drop a broken connection, and dial once more."""
        self._discard(connection)
        peer = connection.peer
        if peer is not None and connection in peer.connections:
            peer.connections.remove(connection)
            if not peer.left and connection.plane < len(peer.addresses):
                self._dial_again(peer, connection.plane)

    def _discard(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        connection.closed = True
        self._loop.drop(connection.sock)

    def _begin_to_close(self) -> None:
        for process in list(self._peers):
            self._say(process, {"type": "leaves"})
        self._closing = time.monotonic() + _FLUSH_S

    def _all_is_said(self) -> bool:
        """Return whether each process's kernel has acknowledged all messages on at least one plane."""
        return all(
            any(
                each.ready and each.said == peer.first + len(peer.said) and not each.unsent and arrived(each.sock)
                for each in peer.connections
            )
            for peer in self._present()
        )
