# SPDX-License-Identifier: BSD-2-Clause
"""Packets that are sent wrong, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.requestor.send import RequestMaker
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.rows import PAD_SHIFT, PSN_BITS_MASK, RTX, TS
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant


class _Repacked(Endpoint):
    """An endpoint whose packets are changed before their ICRC is made: `repack` gets those of one turn."""

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        start = batch.count
        sent = super().transmit(batch, now)
        if sent:
            self.repack(batch, start)
            batch.seal(start)
        return sent

    def repack(self, batch: TransmitBatch, start: int) -> None:
        raise NotImplementedError


@mutant("MRC-WIRE-22")
class SolicitedEventIsSet(_Repacked):
    """SE is 1 in every packet that ends a message."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["flags"] |= (np.isin(fields["opcode"], (Op.WRITE_ONLY, Op.WRITE_LAST)) << np.uint8(7)).astype(np.uint8)


@mutant("MRC-WIRE-07")
class TverIsOne(_Repacked):
    """TVer is sent as 1."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        batch.fields(COMMON, start, batch.count)["flags"] |= 1


@mutant("MRC-WIRE-24")
class PkeyOfAPartialMember(_Repacked):
    """The P_Key of probes is 0x7fff."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["pkey"][fields["opcode"] == Op.PROBE] = 0x7FFF


@mutant("MRC-WIRE-05")
class AcksGoToAnotherPort(_Repacked):
    """Transport ACKs go to the UDP port they might have come from."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["udp_dport"][fields["opcode"] == Op.ACKNOWLEDGE] = 49152


@mutant("MRC-WIRE-23")
class NoPadCount(_Repacked):
    """The padding is there, but the pad count says 0."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        batch.fields(COMMON, start, batch.count)["flags"] &= np.uint8(~(3 << PAD_SHIFT) & 0xFF)


@mutant("MRC-WIRE-28")
class TsIsNeverSet(_Repacked):
    """ts is 0 although a TSETH follows."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        batch.fields(COMMON, start, batch.count)["psn_word"] &= np.uint32(~TS & 0xFFFFFFFF)


@mutant("MRC-WIRE-32")
class ProbesHaveAPsn(_Repacked):
    """A reliability probe carries the next PSN instead of 0."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        qp = next(iter(self.qps.values()))
        fields = batch.fields(COMMON, start, batch.count)
        fields["psn_word"][fields["opcode"] == Op.PROBE] = qp.requestor.sent.next_psn & PSN_BITS_MASK


@mutant("MRC-WIRE-33")
class ResponsesAreNumberedAnew(_Repacked):
    """An endpoint response has the id after the one of its request."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["psn_word"] += (fields["opcode"] == Op.ENDPOINT_RESPONSE).astype(np.uint32)


@mutant("MRC-WIRE-25", "MRC-WIRE-20")
class NoRtxBit(RequestMaker):
    """Retransmissions go out without the rtx bit."""

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        start = batch.count
        sent = super().transmit_again(batch, psn, ev, now)
        batch.fields(COMMON, start, batch.count)["psn_word"] &= np.uint32(~RTX & 0xFFFFFFFF)
        return sent


@mutant("MRC-WIRE-10")
class MiddlesAreFirsts(_Repacked):
    """The packets between the first and the last of a message have the opcode of the first."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["opcode"][fields["opcode"] == Op.WRITE_MIDDLE] = Op.WRITE_FIRST


@mutant("MRC-WIRE-11")
class ImmediatesAreNotAnnounced(_Repacked):
    """The last packet of a write with immediate has the opcode of one without."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["opcode"][fields["opcode"] == Op.WRITE_LAST_WITH_IMMEDIATE] = Op.WRITE_LAST


@mutant("MRC-WIRE-29")
class PsnsStartAtZero(_Repacked):
    """Requests are numbered from 0 instead of from the first PSN that was agreed on."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        first = next(iter(self.qps.values())).first_psn
        for row in batch.fields(COMMON, start, batch.count):
            if int(row["opcode"]) in REQUEST_OPCODES:
                word = int(row["psn_word"])
                row["psn_word"] = word & ~PSN_BITS_MASK | word - first & PSN_BITS_MASK


@mutant("MRC-WIRE-33")
class EveryRequestHasIdZero(_Repacked):
    """All endpoint requests have request id 0."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["psn_word"][fields["opcode"] == Op.ENDPOINT_REQUEST] = 0


@mutant("MRC-ICRC-09")
class UdpChecksumOfOnes(_Repacked):
    """The UDP checksum is sent as 0xffff."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        batch.fields(COMMON, start, batch.count)["udp_chksum"] = 0xFFFF


@mutant("MRC-WIRE-19")
class KeepsAlive(Endpoint):
    """An idle QP sends a probe every second."""

    def next_deadline(self) -> int | None:
        due, own = super().next_deadline(), (self.datapath.now // 1_000_000_000 + 1) * 1_000_000_000
        return own if due is None else min(due, own)

    def on_timer(self, now: int) -> None:
        super().on_timer(now)
        if now % 1_000_000_000 == 0:
            for qp in self.qps.values():
                probes: Any = qp.requestor._probes
                probes._enqueue(-1, 0, 0)
                self.wake(qp)


@mutant("MRC-WIRE-22")
class MigReqIsSet(_Repacked):
    """M is 1 in every request, as in the packets of an RC QP whose path has migrated."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        fields["flags"] |= (np.isin(fields["opcode"], list(REQUEST_OPCODES)) << np.uint8(6)).astype(np.uint8)
