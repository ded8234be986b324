# SPDX-License-Identifier: BSD-2-Clause
"""Headers in another order, fields the other way round, opcodes in each other's place: sent so, read so, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mrc.conformance.codec.icrc import icrc, icrc_bytes
from mrc.endpoint.endpoint import Endpoint
from mrc.wire.fields import U8
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT, EXTENSION_AT, MIN_PACKET, TS
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked

_METH, _RETH, _IMMDT, _TSETH = 4, 16, 4, 4
_PSN_FLAGS = BTH_AT + 8
_SACK_OFFSET = slice(EXTENSION_AT + 18, EXTENSION_AT + 20)
_CC_TYPE = EXTENSION_AT + 16
_WITH_IMMEDIATE = (Op.WRITE_LAST_WITH_IMMEDIATE, Op.WRITE_ONLY_WITH_IMMEDIATE)


class _Misread(Endpoint):
    """Finds packets other than they came: `misread` changes the bytes of one from its IP header to its ICRC, which is
    made anew. One whose ICRC is wrong, or that has none, is left alone."""

    def misread(self, packet: U8) -> None:
        raise NotImplementedError

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        for row, length in enumerate(batch.length.tolist()):
            packet = batch.packet(row)
            if length < MIN_PACKET or packet[-4:] != icrc_bytes(icrc(packet[:-4])):
                continue
            self.misread(batch.data[row, : length - 4])
            right = icrc_bytes(icrc(batch.packet(row)[:-4]))
            batch.data[row, length - 4 : length] = np.frombuffer(right, np.uint8)
        super().receive(batch, now)


class _BothWays(_Misread, _Repacked):
    """Wrong in what it sends and in what it reads alike, so that two of its kind understand each other."""

    def missend(self, packet: U8) -> None:
        raise NotImplementedError

    def repack(self, batch: TransmitBatch, start: int) -> None:
        for row in range(start, batch.count):
            self.missend(batch.headers[row])


def _reth_at(packet: U8) -> int:
    return EXTENSION_AT + _METH + (_TSETH if packet[_PSN_FLAGS] & TS >> 24 else 0)


class _Turned(_BothWays):
    """`place` names bytes of a packet that are turned round by `by`."""

    by = 4

    def place(self, packet: U8) -> slice | None:
        raise NotImplementedError

    def missend(self, packet: U8) -> None:
        self._turn(packet, -self.by)

    def misread(self, packet: U8) -> None:
        self._turn(packet, self.by)

    def _turn(self, packet: U8, by: int) -> None:
        place = self.place(packet)
        if place is not None:
            packet[place] = np.roll(packet[place], by)


@mutant("MRC-WIRE-01")
class MethBehindTheReth(_Turned):
    """A request has its METH behind the RETH, with TSETH or without."""

    def place(self, packet: U8) -> slice | None:
        return slice(EXTENSION_AT, _reth_at(packet) + _RETH) if packet[BTH_AT] in REQUEST_OPCODES else None


@mutant("MRC-WIRE-01")
class TsethBehindTheReth(_Turned):
    """A request has its TSETH behind the RETH."""

    def place(self, packet: U8) -> slice | None:
        at = _reth_at(packet)
        timed = packet[BTH_AT] in REQUEST_OPCODES and at > EXTENSION_AT + _METH
        return slice(at - _TSETH, at + _RETH) if timed else None


@mutant("MRC-WIRE-01")
class ImmdtIsReadBeforeTheReth(_Misread):
    """The ImmDt of a request is looked for before its RETH."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] in _WITH_IMMEDIATE:
            place = slice(_reth_at(packet), _reth_at(packet) + _RETH + _IMMDT)
            packet[place] = np.roll(packet[place], -_IMMDT)


@mutant("MRC-WIRE-28")
class TsIsNotLookedAt(_Misread):
    """Every request that comes is taken to have a TSETH, whatever its ts bit says."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] in REQUEST_OPCODES:
            packet[_PSN_FLAGS] |= TS >> 24


@mutant("MRC-ACK-01")
class MsnBeforeTheSyndrome(_Turned):
    """An AETH has its MSN first and the syndrome behind it."""

    by = 1

    def place(self, packet: U8) -> slice | None:
        return slice(EXTENSION_AT, EXTENSION_AT + 4) if packet[BTH_AT] == Op.ACKNOWLEDGE else None


class _LittleEndian(_BothWays):
    """`place` names bytes that are sent and read least significant first."""

    def place(self, packet: U8) -> slice | None:
        raise NotImplementedError

    def missend(self, packet: U8) -> None:
        place = self.place(packet)
        if place is not None:
            packet[place] = packet[place][::-1].copy()

    def misread(self, packet: U8) -> None:
        self.missend(packet)


@mutant("MRC-WIRE-09")
class RkeysAreLittleEndian(_LittleEndian):
    """R_Keys are sent and read as they lie in the memory of the host."""

    def place(self, packet: U8) -> slice | None:
        at = _reth_at(packet) + 8
        return slice(at, at + 4) if packet[BTH_AT] in REQUEST_OPCODES else None


@mutant("MRC-WIRE-09")
class ImmediatesAreLittleEndian(_LittleEndian):
    """Immediates are sent and read as they lie in the memory of the host."""

    def place(self, packet: U8) -> slice | None:
        at = _reth_at(packet) + _RETH
        return slice(at, at + _IMMDT) if packet[BTH_AT] in _WITH_IMMEDIATE else None


class _Renumbered(_BothWays):
    """Each opcode in `numbers` has the value beside it, and the other way round."""

    numbers: ClassVar[Mapping[int, int]]

    def missend(self, packet: U8) -> None:
        opcode = int(packet[BTH_AT])
        turned = {other: each for each, other in self.numbers.items()}
        packet[BTH_AT] = self.numbers.get(opcode, turned.get(opcode, opcode))

    def misread(self, packet: U8) -> None:
        self.missend(packet)


@mutant("MRC-WIRE-12")
class AcksHaveTheOpcodeOfRc(_Renumbered):
    """A transport ACK is 0x11, as in RoCEv2 RC, and 0xd1 is no opcode."""

    numbers: ClassVar = {Op.ACKNOWLEDGE: 0x11}


@mutant("MRC-WIRE-13")
class ResponsesAreRequests(_Renumbered):
    """Endpoint requests are 0xd9 and endpoint responses 0xd8."""

    numbers: ClassVar = {Op.ENDPOINT_REQUEST: Op.ENDPOINT_RESPONSE}


@mutant("MRC-WIRE-15", "MRC-WIRE-16")
class NacksAreProbes(_Renumbered):
    """NACKs are 0xde and probes 0xdd."""

    numbers: ClassVar = {Op.NACK: Op.PROBE}


@mutant("MRC-SACK-28")
class CcTypesAreNotRead(_Misread):
    """The bytes behind a SETH are taken for a CC_STATE whatever its cc_type."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] == Op.SACK:
            packet[_CC_TYPE] &= 0x0F


@mutant("MRC-SACK-28")
class AnotherCcTypeIsDropped(_Misread):
    """A SACK whose cc_type is not 0 is not taken for a SACK."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] == Op.SACK and packet[_CC_TYPE] >> 4:
            packet[BTH_AT] = 0xDF


@mutant("MRC-SACK-09")
class SackOffsetsAreNotRead(_Misread):
    """The bitmap of a SACK is read from cack_psn + 1 on, whatever its sack_offset."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] == Op.SACK:
            packet[_SACK_OFFSET] = (0, 1)


@mutant("MRC-SACK-09")
class SackOffsetsAreUnsigned(_Misread):
    """A sack_offset below 0 is taken for one far above it, and the SACK for one of PSNs that were never sent."""

    def misread(self, packet: U8) -> None:
        if packet[BTH_AT] == Op.SACK and packet[_SACK_OFFSET][0] >> 7:
            packet[_SACK_OFFSET] = (0x7F, 0xFF)
