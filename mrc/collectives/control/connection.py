"""What the control keeps of each other rank, and TCP as it uses it."""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
import time
from collections.abc import Sequence

from mrc.collectives.control.listening import Note
from mrc.collectives.control.secured import Secured

_KEEPALIVE_S = 2
_MOST_KEEPALIVES = 127


class Connection:
    """One TCP connection. An accepted one has no `rank` before its hello."""

    def __init__(self, sock: socket.socket, secured: Secured, rank: int | None, plane: int) -> None:
        self.sock = sock
        self.secured = secured
        self.rank = rank
        self.plane = plane
        self.connected = False
        self.closed = False
        self.greeted = False
        self.unsent = bytearray(secured.nonce)
        self.since = time.monotonic()


class Peer:
    """Another rank. `said` are all messages sent to it."""

    def __init__(self, addresses: Sequence[str], port: int, key: bytes, dials: bool) -> None:
        self.addresses = addresses
        self.port = port
        self.key = key
        self.dials = dials
        self.said: list[Note] = []
        self.left = False
        self.connections: dict[int, Connection] = {}
        self.dial_at: dict[int, float] = {}
        # When a connection was closed; the connections to find out whether the rank's process lives: those under way,
        # with the time to give them up, and those that are made and wait for a word.
        self.doubted_since: float | None = None
        self.doubt_at = 0.0
        self.asking: dict[socket.socket, float] = {}
        self.answered: set[socket.socket] = set()


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel ask the other end's, for as long as it can, whether it is there."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _MOST_KEEPALIVES)


def arrived(sock: socket.socket) -> bool:
    """Return whether the other end's kernel has acknowledged everything."""
    left = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4)
    return int.from_bytes(left, sys.byteorder) == 0


def dialled(address: str, port: int) -> socket.socket | None:
    """A connection under way, or None where it cannot begin."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    sock.setblocking(False)
    if sock.connect_ex((address, port)) in (0, errno.EINPROGRESS):
        return sock
    sock.close()
    return None
