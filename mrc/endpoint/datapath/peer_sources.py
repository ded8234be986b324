# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Which packets are the peer's."""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.compiled import python, u8s
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.received_packet import ReceivedPacket
from mrc.wire.rows import fields_at

MAX_PORTS = 16
(_SOURCE_AT,) = fields_at("ipv6", "src")
_ADDRESS = 16
_MAX_PORTS = MAX_PORTS


class PeerSources:
    """The peer's inner address (128 bit) by the local port its packets come in on."""

    _addresses: u8s
    _known: u8s

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self._addresses = memoryview(bytearray(MAX_PORTS * _ADDRESS))
        self._known = memoryview(bytearray(MAX_PORTS))

    def add(self, port: int, address: int) -> python[None]:
        """Raises CallerError for a port that cannot be."""
        if not 0 <= port < MAX_PORTS:
            raise CallerError(f"ports are numbered 0..{MAX_PORTS - 1}, got {port}")
        octets.put64(self._addresses, port * _ADDRESS, address >> 64)
        octets.put64(self._addresses, port * _ADDRESS + 8, address & (1 << 64) - 1)
        self._known[port] = 1

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        """Whether a packet has the peer's address on the port it came in on as its source. No peer has one on a port
        that cannot be."""
        port = packet.port
        return (
            0 <= port < _MAX_PORTS
            and self._known[port] != 0
            and octets.equal(batch.flat, packet.at + _SOURCE_AT, self._addresses, port * _ADDRESS, _ADDRESS)
        )
