# SPDX-License-Identifier: BSD-2-Clause
"""One end of a connection between two processes: the exchange's TLS and its messages, without a socket.

As in `mrc.net.exchange`, the end that is dialled has a certificate made on the spot, whose fingerprint the other knows
from the store, and the dialling end proves that it knows the secret from there. Only then is anything else read. What
differs is who waits: the exchange gives each connection a thread that asks and is answered, and gives a silent client
up. Here both ends speak at any time, one thread serves the connections of up to a thousand ranks, and silence means
nothing, for a rank may be stopped or cut off for long.
"""

from __future__ import annotations

import hmac
import secrets
import ssl
from collections.abc import Iterator

from mrc.collectives.control.listening import Contact
from mrc.errors import PeerError
from mrc.net.exchange.config import MAX_HELLO_BYTES, MAX_MESSAGE_BYTES
from mrc.net.exchange.messages import LENGTH, NONCE_BYTES, Message, byte_member, decode, encode, member, proof
from mrc.net.exchange.tls import Identity, check_certificate, client_context

PROTOCOL = "mrc-collectives"
VERSION = 2
SESSION_BYTES = 16
SECRET_BYTES = 16
_READ = 1 << 14


class Channel:
    """Bytes of the socket in, messages out, and the other way round.

    `receive` takes bytes that came, `messages` gives whole messages, `take_outgoing` what is to be sent. After a
    PeerError it is of no use. `ready` once each end has shown who it is.
    """

    def __init__(self) -> None:
        self.ready = False
        self.shaken = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._buffer = bytearray()
        self._tls: ssl.SSLObject

    def receive(self, data: bytes) -> None:
        """Take bytes that came. Raises PeerError when they are not what TLS sends."""
        self._incoming.write(data)
        self._turn()

    def messages(self) -> Iterator[Message]:
        """The messages that have come whole, once both ends have shown who they are. Raises PeerError for malformed
        ones."""
        while (message := self._next()) is not None:
            if self.ready:
                yield message
            else:
                self._introduce(message)

    def send(self, message: Message) -> None:
        self._tls.write(encode(message))

    def take_outgoing(self) -> bytes:
        return self._outgoing.read()

    def _introduce(self, message: Message) -> None:
        """Handle a message before the other end is known."""
        raise NotImplementedError

    def _on_shaken(self) -> None:
        """TLS is up."""

    def _turn(self) -> None:
        try:
            if not self.shaken:
                self._tls.do_handshake()
                self.shaken = True
                self._on_shaken()
            while data := self._tls.read(_READ):
                self._buffer += data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise PeerError(f"no TLS: {error.reason or error}") from None

    def _next(self) -> Message | None:
        if len(self._buffer) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._buffer)
        most = MAX_MESSAGE_BYTES if self.ready else MAX_HELLO_BYTES
        if length > most:
            raise PeerError(f"the other end sent a message of {length} bytes, the most is {most}")
        end = LENGTH.size + length
        if len(self._buffer) < end:
            return None
        content = bytes(self._buffer[LENGTH.size : end])
        del self._buffer[:end]
        return decode(content)


class Dialled(Channel):
    """The end that was dialled. `contact` is the other process's once it is `ready`."""

    def __init__(self, identity: Identity, secret: bytes) -> None:
        super().__init__()
        self._identity, self._secret = identity, secret
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self.contact: Contact = {}
        self.plane = 0
        self._tls = identity.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _on_shaken(self) -> None:
        self.send({"type": "greeting", "protocol": PROTOCOL, "version": VERSION, "nonce": self._nonce.hex()})

    def _introduce(self, message: Message) -> None:
        if message["type"] != "hello":
            raise PeerError("the other end did not say hello")
        session = byte_member(message, "session", SESSION_BYTES)
        shown = byte_member(message, "proof", 32)
        if not hmac.compare_digest(shown, proof(self._secret, self._identity.fingerprint, self._nonce, session)):
            raise PeerError("the other end does not know the secret")
        self.plane, self.contact = member(message, "plane", int), member(message, "contact", dict)
        self.ready = True
        self.send({"type": "welcome"})


class Dialling(Channel):
    """The end that dials. `ours` is the contact of its own process."""

    def __init__(self, fingerprint: bytes, secret: bytes, ours: Contact, plane: int) -> None:
        super().__init__()
        self._fingerprint, self._secret, self._ours, self._plane = fingerprint, secret, ours, plane
        self._tls = _CLIENT.wrap_bio(self._incoming, self._outgoing, server_side=False)

    def begin(self) -> None:
        """Say the first word of TLS."""
        self._turn()

    def _on_shaken(self) -> None:
        # Another one: another process listens there than the one that was met.
        check_certificate(self._tls, self._fingerprint)

    def _introduce(self, message: Message) -> None:
        if message["type"] == "welcome":
            self.ready = True
            return
        if message["type"] != "greeting" or member(message, "protocol", str) != PROTOCOL:
            raise PeerError("the other end is no rank of a group")
        if member(message, "version", int) != VERSION:
            raise PeerError("the other end runs another release of mrc: use the same one at all ranks")
        nonce, session = byte_member(message, "nonce", NONCE_BYTES), secrets.token_bytes(SESSION_BYTES)
        hello = {"type": "hello", "session": session.hex(), "plane": self._plane, "contact": self._ours}
        shown = proof(self._secret, self._fingerprint, nonce, session)
        self.send(hello | {"proof": shown.hex()})


_CLIENT = client_context()
