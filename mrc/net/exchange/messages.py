# SPDX-License-Identifier: BSD-2-Clause
"""The messages of the out-of-band exchange: what they hold, their bytes, and the proof of the secret.

A frame is a 32-bit big-endian length and that many bytes of JSON, one object. In order of appearance:

| from | type | members | meaning |
|---|---|---|---|
| server | greeting | protocol version features nonce | opens every connection |
| client | hello | version features session attempt resume proof | who it is and that it holds the ticket |
| server | welcome | | the proof is good |
| either | refused | reason text | the last message of a connection |
| client | request | id kind body | ids grow by one; the same id again is the same request |
| server | working | id | the request is being executed |
| server | answer | id body | |
| server | error | id error_class text | the handler refused |
| client, server | ping, pong | | is this path alive |
| client | away | | the client comes back by another connection; an end without it is that of its process |
| client, server | bye | | the session is over |

greeting, hello and refused keep their form in every later version, so that releases that cannot work together can
still say so.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from typing import Any, TypeVar

from mrc.errors import CallerError, PeerError
from mrc.net.exchange.config import MAX_MESSAGE_BYTES
from mrc.untrusted import MAX_DEPTH, NotJson, depth_of, parse_json

PROTOCOL = "mrc-exchange"
VERSION = 1
NONCE_BYTES = 32
SESSION_BYTES = 16
_MOST_VERSION = 1_000_000
LENGTH = struct.Struct("!I")

Message = dict[str, Any]
T = TypeVar("T")


def encode(message: Message) -> bytes:
    """The frame of `message`. Raises CallerError when it is not JSON, nested too deeply, or above 1 MiB."""
    try:
        content = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise CallerError(f"the message cannot be written as JSON: {error}") from None
    if len(content) > MAX_MESSAGE_BYTES:
        raise CallerError(f"the message has {len(content)} bytes, the most is {MAX_MESSAGE_BYTES}: split it")
    # One level is the message's own object.
    if depth_of(message) > MAX_DEPTH:
        raise CallerError(f"the message is nested more than {MAX_DEPTH} levels deep: flatten it")
    if b"\\ud" in content:  # a pair, a byte of a file's name, or what the other end would refuse
        try:
            parse_json(content, "its text", file_names=True)
        except NotJson as error:
            raise CallerError(f"the message cannot be sent: {error}") from None
    return LENGTH.pack(len(content)) + content


def decode(content: bytes) -> Message:
    """The message in the bytes after the length. Raises PeerError, and nothing else, when they hold none."""
    try:
        message = parse_json(content, "a message of the other end", file_names=True)
    except NotJson as error:
        raise PeerError(f"{error}: use the same mrc release at both ends") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise PeerError("the other end sent a message without a type: use the same mrc release at both ends")
    return message


def member(message: Message, name: str, kind: type[T]) -> T:
    """`message[name]`, which must be exactly of type `kind`. Raises PeerError otherwise."""
    value = message.get(name)
    # type(), not isinstance: true is no number.
    if type(value) is not kind:
        raise PeerError(
            f"the other end's {message['type']} has no proper {name}: use the same mrc release at both ends"
        )
    return value


def byte_member(message: Message, name: str, length: int) -> bytes:
    """`message[name]`, `length` bytes written in hexadecimal. Raises PeerError otherwise."""
    text = member(message, name, str)
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != length or text != value.hex():
        raise PeerError(f"the other end's {message['type']} has no proper {name}: {length} bytes in hexadecimal belong")
    return value


def feature_member(message: Message) -> frozenset[str]:
    """The feature list of a greeting or a hello. Raises PeerError when it is not a list of names."""
    features = member(message, "features", list)
    if not all(isinstance(feature, str) for feature in features):
        raise PeerError(f"the other end's {message['type']} has no proper features: a list of names belongs there")
    return frozenset(features)


def proof(secret: bytes, fingerprint: bytes, nonce: bytes, session: bytes) -> bytes:
    """What a client shows instead of the secret: HMAC-SHA256 keyed with it, 32 bytes.

    It covers the certificate and the nonce of the connection at hand, so that it is worth nothing on another, and
    the session, so that nobody else's session can be put in its place.
    """
    return hmac.new(secret, b"mrc exchange hello\0" + fingerprint + nonce + session, hashlib.sha256).digest()


def version_member(message: Message) -> int:
    """The version of a greeting or a hello. Raises PeerError where it is none that any release has."""
    version = member(message, "version", int)
    if not 0 < version <= _MOST_VERSION:
        raise PeerError(
            f"the other end's {message['type']} has no proper version: use the same mrc release at both ends"
        )
    return version


def version_mismatch(ours: int, theirs: int) -> str:
    return (
        f"the other end speaks version {theirs} of the exchange, this end version {ours}: "
        "use the same mrc release at both ends"
    )
