# SPDX-License-Identifier: BSD-2-Clause
"""What the control keeps of each other process, and TCP as it uses it."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import socket
import sys
import termios
import time
from collections import deque
from collections.abc import Sequence

from mrc.collectives.control.channel import SECRET_BYTES, Channel
from mrc.collectives.control.listening import Contact, Note
from mrc.errors import PeerError
from mrc.net.ticket import FINGERPRINT_BYTES, MAX_ADDRESSES

_KEEPALIVE_S = 2
_MOST_KEEPALIVES = 127
_MOST_NAME = 64


class Connection:
    """One TCP connection. An accepted one has no `peer` before its hello."""

    def __init__(self, sock: socket.socket, channel: Channel, peer: Peer | None, plane: int) -> None:
        self.sock = sock
        self.channel = channel
        self.peer = peer
        self.plane = plane
        self.dialled = peer is not None
        self.connected = False
        self.closed = False
        self.said = 0  # the number of the next note to say on it
        self.unsent = bytearray()
        self.since = time.monotonic()

    @property
    def ready(self) -> bool:
        return self.channel.ready and not self.closed


class Peer:
    """Another process. `said` are the messages to it that it has not confirmed, from number `first` on."""

    def __init__(
        self, process: str, addresses: Sequence[str], port: int, fingerprint: bytes, secret: bytes, ours: str
    ) -> None:
        self.process = process
        self.addresses = addresses
        self.port = port
        self.fingerprint = fingerprint
        self.secret = secret
        # One of the two dials; the other does so only where nobody has.
        self.dials = ours < process
        self.first = 0
        self.said: deque[Note] = deque()
        self.heard = 0
        self.left = False
        self.connections: list[Connection] = []
        self.dial_at: dict[int, float] = {}
        # When a connection was closed and no word of the process has come since.
        self.doubted_since: float | None = None

    def on_plane(self, plane: int) -> bool:
        """Return whether there is a connection, or one under way."""
        return any(each.plane == plane for each in self.connections)

    def confirm(self, count: int) -> None:
        """Forget the messages that the process has heard, `count` in all."""
        while self.said and self.first < count:
            self.said.popleft()
            self.first += 1


def peer_of(contact: Contact, ours: str) -> Peer:
    """The process that a contact describes. Raises PeerError for a malformed one."""
    try:
        process, addresses, port = contact["process"], contact["addresses"], contact["port"]
        fingerprint, secret = bytes.fromhex(contact["fingerprint"]), bytes.fromhex(contact["secret"])
        if type(process) is not str or not 1 <= len(process) <= _MOST_NAME or type(port) is not int:
            raise ValueError
        if not 1 <= len(addresses) <= MAX_ADDRESSES or not 1 <= port <= 65535:
            raise ValueError
        for each in addresses:
            ipaddress.ip_address(each)
        if (len(fingerprint), len(secret)) != (FINGERPRINT_BYTES, SECRET_BYTES):
            raise ValueError
    except (TypeError, KeyError, ValueError):
        raise PeerError("a rank left no control address in the store") from None
    return Peer(process, tuple(addresses), port, fingerprint, secret, ours)


def prepare(sock: socket.socket) -> None:
    """Small messages at once; and have the kernel ask the other end's, for as long as it can, whether it is there."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _MOST_KEEPALIVES)


def arrived(sock: socket.socket) -> bool:
    """Return whether the other end's kernel has acknowledged everything."""
    left = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4)
    return int.from_bytes(left, sys.byteorder) == 0


def dialled(address: str, port: int) -> socket.socket | int:
    """A connection under way, or the error with which it cannot begin."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        prepare(sock)
        code = sock.connect_ex((address, port))
    except OSError as error:
        code = error.errno or errno.EIO
    if code in (0, errno.EINPROGRESS):
        return sock
    sock.close()
    return code
