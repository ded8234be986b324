# SPDX-License-Identifier: BSD-2-Clause
"""The ticket: the one line a receiver prints and a sender is given, with all it takes to meet.

It names where to connect, which certificate to expect there and the secret that admits. Nothing else is needed
and nothing else is trusted: no authority, no host name, no configuration at either end.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import struct
from dataclasses import field

from mrc.errors import CallerError
from mrc.records import record

PREFIX = "mrc1:"
FINGERPRINT_BYTES = 32
SECRET_BYTES = 16
MAX_ADDRESSES = 16  # one a plane, and a fabric has up to 16 planes (wire.md section 11)

# TCP port, number of addresses, a bit per address that is set where the address is IPv4 (bit 0 = the first).
_HEADER = struct.Struct("!HBH")
_CHECKSUM = struct.Struct("!I")
_ANY_VERSION = re.compile(r"mrc(\d+):")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


@record(frozen=True, slots=True)
class Ticket:
    """Where a receiver is and how to be let in (architecture.md, "Out-of-band exchange").

    `addresses`: 1 to 16 plain IPv6 or IPv4 addresses in the order to try them, one a plane. `port`: TCP, 1 to 65535.
    `fingerprint`: SHA-256 of the receiver's DER certificate, 32 bytes. `secret`: 16 random bytes, which admit any
    number of senders, one after another or at once, for as long as the receiver that made them lives; whoever
    reads the ticket can send, so it travels like a password and is left out of `repr`.

    The text is `mrc1:` and unpadded base64url of header, fingerprint, secret, addresses and a CRC-32 of them all.
    Raises CallerError for a part out of its range.
    """

    addresses: tuple[str, ...]
    port: int
    fingerprint: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.addresses) <= MAX_ADDRESSES:
            raise CallerError(f"a ticket names 1 to {MAX_ADDRESSES} addresses, got {len(self.addresses)}")
        if not 1 <= self.port <= 65535:
            raise CallerError(f"a ticket's port is 1 to 65535, got {self.port}")
        if len(self.fingerprint) != FINGERPRINT_BYTES:
            raise CallerError(f"a certificate fingerprint has {FINGERPRINT_BYTES} bytes, got {len(self.fingerprint)}")
        if len(self.secret) != SECRET_BYTES:
            raise CallerError(f"a ticket's secret has {SECRET_BYTES} bytes, got {len(self.secret)}")
        # One spelling per address, so that equal tickets compare equal and have equal texts.
        object.__setattr__(self, "addresses", tuple(str(_plain_address(address)) for address in self.addresses))

    @property
    def text(self) -> str:
        """The ticket as the one line to print. It contains the secret."""
        packed = [_plain_address(address) for address in self.addresses]
        ipv4_mask = sum(1 << index for index, address in enumerate(packed) if address.version == 4)
        body = b"".join(
            [
                _HEADER.pack(self.port, len(packed), ipv4_mask),
                self.fingerprint,
                self.secret,
                *(address.packed for address in packed),
            ]
        )
        return PREFIX + _encode(body + _CHECKSUM.pack(binascii.crc32(body)))

    @classmethod
    def parse(cls, text: str) -> Ticket:
        """The ticket in `text`; white space around it is ignored.

        Raises CallerError that says whether the text is no ticket, one of another release, cut short, or altered.
        """
        line = text.strip()
        if not line:
            raise CallerError("the ticket is empty: the other end may not have printed it yet")
        if not line.startswith(PREFIX):
            other = _ANY_VERSION.match(line)
            if other:
                raise CallerError(
                    f"this is a ticket of version {other[1]}, this release reads version 1: use the same mrc release "
                    "at both ends"
                )
            raise CallerError(
                f"this is not a ticket: a ticket starts with {PREFIX!r}; copy the whole line that the other end printed"
            )
        encoded = line.removeprefix(PREFIX)
        if not _BASE64URL.fullmatch(encoded):
            raise CallerError(
                "the ticket is altered, it has characters no ticket has: copy the whole line that the other end printed"
            )
        content = _decode(encoded)
        if len(content) < _HEADER.size:
            raise CallerError("the ticket is cut short: copy the whole line that the other end printed")
        port, count, ipv4_mask = _HEADER.unpack_from(content)
        if not 1 <= count <= MAX_ADDRESSES or ipv4_mask >> count:
            raise CallerError("the ticket is altered: copy the whole line that the other end printed")
        sizes = [4 if ipv4_mask >> index & 1 else 16 for index in range(count)]
        expected = _HEADER.size + FINGERPRINT_BYTES + SECRET_BYTES + sum(sizes) + _CHECKSUM.size
        if len(content) < expected:
            raise CallerError(
                f"the ticket is cut short, it has {len(content)} of its {expected} bytes: copy the whole line "
                "that the other end printed"
            )
        # A last character may hold bits beyond the last byte; only the spelling that was printed is accepted.
        if len(content) > expected or _encode(content) != encoded:
            raise CallerError("the ticket has something attached to it: copy only the line that the other end printed")
        body, checksum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
        if _CHECKSUM.pack(binascii.crc32(body)) != checksum:
            raise CallerError(
                "the ticket is altered, its checksum is wrong: copy the whole line that the other end printed"
            )
        at = _HEADER.size
        fingerprint = body[at : at + FINGERPRINT_BYTES]
        at += FINGERPRINT_BYTES
        secret = body[at : at + SECRET_BYTES]
        at += SECRET_BYTES
        addresses = []
        for size in sizes:
            addresses.append(str(ipaddress.ip_address(body[at : at + size])))
            at += size
        return cls(tuple(addresses), port, fingerprint, secret)


def names_a_version(text: str) -> bool:
    """Return whether `text` begins as a ticket does, of this release or another."""
    return _ANY_VERSION.match(text.strip()) is not None


def _plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise CallerError(f"a ticket names plain addresses: {error}") from None
    if address.version == 6 and (address.is_link_local or address.scope_id):
        raise CallerError(
            f"{text} holds on one link only, another host cannot use it: give a global or private address"
        )
    if address.is_unspecified or address.is_multicast:
        raise CallerError(f"nobody can connect to {text}: give the addresses this host is reached at, one a plane")
    return address


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decode(encoded: str) -> bytes:
    # A lone last character carries six bits, less than a byte: what a paste cut at that point leaves.
    whole = encoded[:-1] if len(encoded) % 4 == 1 else encoded
    return base64.urlsafe_b64decode(whole + "=" * (-len(whole) % 4))
