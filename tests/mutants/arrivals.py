# SPDX-License-Identifier: BSD-2-Clause
"""Packets that are taken wrong: what their ICRC covers, and what is looked at before they are believed."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mrc.conformance.codec.icrc import covered, icrc, icrc_bytes
from mrc.endpoint.datapath.receive import DROPPED, PacketChecks
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.wire.fields import COMMON, Fields
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import MIN_PACKET, PAD_SHIFT, TVER_MASK
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant


class _Refound(Endpoint):
    """An endpoint that finds some packets other than they came: `refind` changes the fields of one, before its ICRC is
    worked out anew. None leaves it alone, False spoils it."""

    def refind(self, fields: Fields) -> bool | None:
        raise NotImplementedError

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        for row, length in enumerate(batch.length.tolist()):
            if length < MIN_PACKET:
                continue
            verdict = self.refind(batch.fields(COMMON)[row : row + 1])
            if verdict is not None:
                right = icrc_bytes(icrc(batch.packet(row)[:-4]))
                tail = right if verdict else bytes(each ^ 0xFF for each in right)
                batch.data[row, length - 4 : length] = np.frombuffer(tail, np.uint8)
        super().receive(batch, now)


@mutant("MRC-WIRE-17")
class RdmaWriteOnlyIsTaken(_Refound):
    """RoCEv2's own RDMA WRITE Only is taken for MRC's."""

    def refind(self, fields: Fields) -> bool | None:
        if fields["opcode"][0] != _STANDARD_WRITE_ONLY:
            return None
        fields["opcode"] = Op.WRITE_ONLY
        return True


@mutant("MRC-ICRC-10")
class UdpChecksumIsVerified(_Refound):
    """A packet whose UDP checksum is not 0 is dropped."""

    def refind(self, fields: Fields) -> bool | None:
        return False if fields["udp_chksum"][0] else None


_STANDARD_WRITE_ONLY = 0x0A
_PORTS = 1 << 16


@mutant("MRC-WIRE-02")
class LengthsAreNotChecked(PacketChecks):
    """A packet may be longer than its opcode says."""

    def _fits(self, opcode: int, spare: int) -> bool:
        return spare >= 0


@mutant("MRC-ICRC-12")
class TrimmedPacketsAreNotKnown(PacketChecks):
    """A trimmed packet is one that is too short, like any other."""

    def _is_whole(self, batch: ReceivedBatch, row: int, least: int, said: int) -> bool:
        return True


class _Resealed(Endpoint):
    """An endpoint that works out its ICRCs some other way, when it sends and when it receives: `spoil` changes what
    they cover, given the packet as well, which ends before its ICRC."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        raise NotImplementedError

    def crc(self, packet: bytes) -> bytes:
        masked = bytearray(covered(packet))
        self.spoil(masked, packet)
        return icrc_bytes(zlib.crc32(_ONES + masked))

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        start = batch.count
        sent = super().transmit(batch, now)
        for row in range(start, batch.count):
            batch.trailers[row, 4:] = np.frombuffer(self.crc(batch.packet(row)[:-4]), np.uint8)
        return sent

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Let the endpoint find each ICRC right or wrong as this one would."""
        for row, length in enumerate(batch.length.tolist()):
            packet = batch.packet(row)
            if length < MIN_PACKET:
                continue
            tail, right = batch.data[row, length - 4 : length], icrc_bytes(icrc(packet[:-4]))
            as_found = self.crc(packet[:-4]) == packet[-4:]
            tail[:] = np.frombuffer(right if as_found else bytes(each ^ 0xFF for each in right), np.uint8)
        super().receive(batch, now)


_ONES = b"\xff" * 8
_HOP_LIMIT = 7
_IPV4_CHECKSUM = slice(10, 12)


def _bth_at(packet: bytes) -> int:
    return 48 if packet[0] >> 4 == 6 else 28


@mutant("MRC-ICRC-03")
class HopLimitIsCovered(_Resealed):
    """The ICRC covers the hop limit as it stands."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        if packet[0] >> 4 == 6:
            masked[_HOP_LIMIT] = packet[_HOP_LIMIT]


@mutant("MRC-ICRC-04")
class Ipv4ChecksumIsCovered(_Resealed):
    """The ICRC covers the IPv4 header checksum as it stands."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        if packet[0] >> 4 == 4:
            masked[_IPV4_CHECKSUM] = packet[_IPV4_CHECKSUM]


@mutant("MRC-ICRC-06")
class BthByte4IsCovered(_Resealed):
    """The ICRC covers byte 4 of the BTH as it stands."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        masked[_bth_at(packet) + 4] = packet[_bth_at(packet) + 4]


@mutant("MRC-ICRC-07")
class PaddingIsNotCovered(_Resealed):
    """The ICRC ends with the payload."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        pad = packet[_bth_at(packet) + 1] >> PAD_SHIFT & 3
        del masked[len(masked) - pad :]


@mutant("MRC-ICRC-11", "MRC-ICRC-02")
class IcrcIsNotChecked(_Resealed):
    """A wrong ICRC is not noticed."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        return

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        for row, length in enumerate(batch.length.tolist()):
            if length >= MIN_PACKET:
                right = icrc_bytes(icrc(batch.packet(row)[:-4]))
                batch.data[row, length - 4 : length] = np.frombuffer(right, np.uint8)
        Endpoint.receive(self, batch, now)


@mutant("MRC-WIRE-08")
class AnyTverIsTaken(_Refound):
    """A packet is taken whatever its TVer is."""

    def refind(self, fields: Fields) -> bool | None:
        if not fields["flags"][0] & TVER_MASK:
            return None
        fields["flags"] &= np.uint8(~TVER_MASK & 0xFF)
        return True


@mutant("MRC-WIRE-06")
def any_udp_port_is_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet is taken whatever UDP port it came to."""
    checks: Any = endpoint.datapath.intake._checks
    checks._is_ours = memoryview(b"\1" * _PORTS)


@mutant("MRC-WIRE-06")
def one_udp_port_is_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """Packets to UDP port 4971 are dropped."""
    checks: Any = endpoint.datapath.intake._checks
    checks._is_ours = memoryview(bytes(port == 4791 for port in range(_PORTS)))


@mutant("MRC-ICRC-01")
class IcrcMostSignificantByteFirst(_Resealed):
    """The four bytes of the ICRC are sent and read most significant first."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        return

    def crc(self, packet: bytes) -> bytes:
        return super().crc(packet)[::-1]


@mutant("MRC-ICRC-05")
class UdpChecksumIsCovered(_Resealed):
    """The ICRC covers a UDP checksum that is not 0 as it stands."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        checksum = slice(_bth_at(packet) - 2, _bth_at(packet))
        if any(packet[checksum]):
            masked[checksum] = packet[checksum]


@mutant("MRC-ICRC-05")
class SourcePortIsNotCovered(_Resealed):
    """The UDP source port counts as ones in the ICRC."""

    def spoil(self, masked: bytearray, packet: bytes) -> None:
        masked[_bth_at(packet) - 8 : _bth_at(packet) - 6] = b"\xff\xff"


@mutant("MRC-WIRE-04")
class Ipv4IsNotTaken(PacketChecks):
    """A packet over IPv4 is dropped."""

    def look(self, batch: ReceivedBatch, row: int) -> int:
        if batch.came_over_ipv4(row):
            self._counters.not_ipv6_udp += 1
            return DROPPED
        return super().look(batch, row)
