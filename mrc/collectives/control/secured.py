"""Authenticated messages over a TCP connection.

The messages are not secret, but a forged one would end a job. Both ends know a key from the documents in the store;
each message carries a keyed checksum (HMAC-SHA-256) over the nonces of this connection, the direction, its number and
its bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct

from mrc.collectives.control.listening import Note
from mrc.errors import PeerError

SECRET_BYTES = 32
NONCE_BYTES = 16
_MAC_BYTES = 16
_LENGTH = struct.Struct("!I")
_MOST = 1 << 16
_NUMBER = struct.Struct("!BQ")


def pair_key(first: bytes, second: bytes) -> bytes:
    """Return the key of two ranks, from the secrets of the lower and the higher rank."""
    return hashlib.sha256(b"mrc collectives control" + first + second).digest()


class Secured:
    """One end of a connection. Each end sends a nonce, then messages.

    `seal` and `feed` know no socket: bytes to send, bytes that came.
    """

    def __init__(self, key: bytes | None, *, dials: bool) -> None:
        self.key = key
        self._dials = dials
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self._theirs = b""
        self._sent = self._received = 0
        self._buffer = bytearray()

    @property
    def ready(self) -> bool:
        """Whether the other end's nonce is known. Sealing needs it."""
        return len(self._theirs) == NONCE_BYTES

    def seal(self, note: Note) -> bytes:
        body = json.dumps(note).encode()
        sealed = self._mac(self._dials, self._sent, body) + body
        self._sent += 1
        return _LENGTH.pack(len(sealed)) + sealed

    def take(self, data: bytes) -> None:
        """Take received bytes."""
        self._buffer += data
        if not self.ready and len(self._buffer) >= NONCE_BYTES:
            self._theirs = bytes(self._buffer[:NONCE_BYTES])
            del self._buffer[:NONCE_BYTES]

    def peek(self) -> Note | None:
        """Return the next message unchecked, to learn which key to check it with."""
        sealed = self._next()
        return None if sealed is None else _read(sealed[_MAC_BYTES:])

    def open(self) -> Note | None:
        """Return the next message, None if it is incomplete. Raises PeerError for a wrong checksum."""
        sealed = self._next()
        if sealed is None:
            return None
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(not self._dials, self._received, body)):
            raise PeerError("a message with a wrong checksum came over a control connection")
        self._received += 1
        del self._buffer[: _LENGTH.size + len(sealed)]
        return _read(body)

    def _next(self) -> bytes | None:
        if not self.ready or len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not _MAC_BYTES <= length <= _MOST:
            raise PeerError(f"a message of {length} bytes came over a control connection")
        if len(self._buffer) < _LENGTH.size + length:
            return None
        return bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])

    def _mac(self, from_dialer: bool, number: int, body: bytes) -> bytes:
        assert self.key is not None
        nonces = self.nonce + self._theirs if self._dials else self._theirs + self.nonce
        return hmac.digest(self.key, nonces + _NUMBER.pack(from_dialer, number) + body, "sha256")[:_MAC_BYTES]


def _read(body: bytes) -> Note:
    try:
        note = json.loads(body)
    except ValueError:
        note = None
    if not isinstance(note, dict):
        raise PeerError("something that is no message came over a control connection")
    return note
