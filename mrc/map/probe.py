# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of a probe: what an MRC packet looks like to a switch, with a payload only its sender can have made.

    IPv6 outer (uSIDs, written by the kernel) | IPv6 | UDP | payload

    payload, 48 bytes, big-endian
     0-7   "mrc-map1"
     8-15  session: 8 random bytes of the sending process
    16-23  sequence number
    24-31  when it was sent, wall clock, nanoseconds
    32-47  BLAKE2s of the above, keyed with 32 random bytes that never leave the process

A probe comes back to the process that sent it, and nobody else has to read it: so the key needs no exchange, and
to forge an echo of a lost probe 128 bits have to be guessed.
"""

from __future__ import annotations

import ipaddress
import secrets
import struct
from hashlib import blake2s
from hmac import compare_digest

from mrc.wire.headers import HEADERS

# Nobody's by IANA's list (49152 and up), and none of MRC's: an endpoint on the same host takes no notice of it.
UDP_PORT = 54791
PAYLOAD_LENGTH = 48
_MAGIC = b"mrc-map1"
_BODY = struct.Struct(">8s8sQQ")
_MAC_LENGTH = 16
_IPV6, _UDP = HEADERS["ipv6"], HEADERS["udp"]
_UDP_PROTOCOL, _HOP_LIMIT = 17, 64
_PAYLOAD_AT = _IPV6.length + _UDP.length
INNER_LENGTH = _PAYLOAD_AT + PAYLOAD_LENGTH
_CHECKSUM_SHIFT = _UDP.field("chksum").shift


class ProbeCodec:
    """Makes and recognises the probes of one process and one of its ports."""

    def __init__(self, address: str, key: bytes, session: bytes, traffic_class: int) -> None:
        """`address`: the port's own one, both source and destination of the inner packet. `traffic_class`: 0..255."""
        own = ipaddress.IPv6Address(address)
        self._key, self._session = key, session
        length = _UDP.length + PAYLOAD_LENGTH
        ends = {"src": int(own), "dst": int(own)}
        lengths = {"plen": length, "nh": _UDP_PROTOCOL, "hlim": _HOP_LIMIT}
        self._head = _IPV6.pack({"version": 6, "tc": traffic_class} | lengths | ends)
        udp = _UDP.pack({"sport": UDP_PORT, "dport": UDP_PORT, "len": length})
        self._udp = int.from_bytes(udp, "big")
        # The pseudo header of RFC 8200 section 8.1, and the UDP header without its checksum.
        self._summed = own.packed + own.packed + struct.pack(">II", length, _UDP_PROTOCOL) + udp

    @staticmethod
    def new_secrets() -> tuple[bytes, bytes]:
        """A fresh key and session, for one process."""
        return secrets.token_bytes(32), secrets.token_bytes(8)

    def build(self, sequence: int, sent_unix_ns: int) -> bytes:
        """The inner packet: IPv6, UDP and payload."""
        body = _BODY.pack(_MAGIC, self._session, sequence, sent_unix_ns)
        payload = body + self._mac(body)
        # The ones' complement sum is the remainder by 65535; a checksum of 0 means none and is sent as its other zero.
        total = int.from_bytes(self._summed + payload, "big") % 0xFFFF
        udp = self._udp | (0xFFFF - total or 0xFFFF) << _CHECKSUM_SHIFT
        return self._head + udp.to_bytes(_UDP.length, "big") + payload

    def read(self, packet: bytes) -> tuple[int, int] | None:
        """(sequence, sent_unix_ns) of an inner packet of this process; None for anything else."""
        if len(packet) != INNER_LENGTH:
            return None
        body, mac = packet[_PAYLOAD_AT:-_MAC_LENGTH], packet[-_MAC_LENGTH:]
        magic, session, sequence, sent = _BODY.unpack(body)
        if magic != _MAGIC or session != self._session or not compare_digest(mac, self._mac(body)):
            return None
        return sequence, sent

    def _mac(self, body: bytes) -> bytes:
        return blake2s(body, digest_size=_MAC_LENGTH, key=self._key).digest()
