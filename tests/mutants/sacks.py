# SPDX-License-Identifier: BSD-2-Clause
"""Wrong SACKs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.reverse import ControlEvs
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.responder.answers import SackMaker
from mrc.endpoint.responder.received import ReceivedPsns
from mrc.endpoint.responder.request_checks import Answer, Reflector
from mrc.wire.fields import COMMON, SACK, Fields
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedPacket
from mrc.wire.rows import RTX, SETH_M_SHIFT
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant, taken

_BITMAP = 64


class _Rewritten(SackMaker):
    """SACKs that are changed after they are made; `rewrite` gets the fields of those of one turn."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        start = batch.count
        sent = super().transmit(batch, limit, now)
        if sent:
            self.rewrite(batch.fields(SACK, start, start + sent))
        return sent

    def rewrite(self, fields: Fields) -> None:
        raise NotImplementedError


@mutant("MRC-SACK-09")
class BitmapBaseOffByOne(ReceivedPsns):
    """The bitmap begins one PSN above the one that sack_offset names."""

    def bitmap(self, base: int) -> int:
        return super().bitmap(base + 1)


@mutant("MRC-SACK-09")
class BitmapMostSignificantFirst(ReceivedPsns):
    """The most significant bit of the bitmap is the first PSN."""

    def bitmap(self, base: int) -> int:
        return int(f"{super().bitmap(base):064b}"[::-1], 2)


@mutant("MRC-SACK-04")
class SackEchoesAnotherEv(SackMaker):
    """A SACK echoes the EV of the last packet that triggered one, not that of its own trigger."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        waiting = taken(self.pending)
        for answer in waiting:
            answer.entropy = waiting[-1].entropy
            self.pending.add(answer)
        return super().transmit(batch, limit, now)


@mutant("MRC-SACK-03")
class AckPsnOffsetFromEpsn(_Rewritten):
    """ack_psn_offset counts from epsn, one PSN above cack_psn."""

    def rewrite(self, fields: Fields) -> None:
        fields["ack_psn_offset"] -= (fields["seth_word"] & 2 == 0).astype(np.int16)


@mutant("MRC-SACK-20")
class AckPsnOffsetTruncated(SackMaker):
    """ack_psn_offset of a packet too old for 16 bits is what is left of it in 16 bits."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        offsets = []
        for answer in (waiting := taken(self.pending, limit)):
            offsets.append(answer.psn - self._received.cack_psn if answer.probe_id < 0 else None)
            self.pending.add(answer)
        start = batch.count
        sent = super().transmit(batch, limit, now)
        fields = batch.fields(SACK, start, start + sent)
        for row in range(len(waiting)):
            offset = offsets[row]
            if offset is not None:
                fields["ack_psn_offset"][row] = (offset + 0x8000 & 0xFFFF) - 0x8000
        return sent


@mutant("MRC-RESP-03")
class CackPsnStopsAtTheTop(_Rewritten):
    """cack_psn does not go past 0xffffff: PSNs do not wrap."""

    def rewrite(self, fields: Fields) -> None:
        if self._received.cack_psn >= 1 << 24:
            fields["cack_word"] = 0xFFFFFF


@mutant("MRC-SACK-05")
class DcidsTurnedRound(_Rewritten):
    """spdcid is the receiver's and dpdcid the sender's."""

    def rewrite(self, fields: Fields) -> None:
        fields["spdcid"], fields["dpdcid"] = fields["dpdcid"].copy(), fields["spdcid"].copy()


@mutant("MRC-WIRE-26")
class SackWithoutRtx(_Rewritten):
    """A SACK never has the rtx bit."""

    def rewrite(self, fields: Fields) -> None:
        fields["psn_word"] &= np.uint32(~RTX & 0xFFFFFFFF)


@mutant("MRC-WIRE-30")
class SackPsnIsTheTriggers(_Rewritten):
    """The PSN in the BTH of a SACK is that of the packet that triggered it."""

    def rewrite(self, fields: Fields) -> None:
        for row in fields:
            if not row["seth_word"] & 2:
                psn = int(row["psn_word"]) + int(row["ack_psn_offset"]) & 0xFFFFFF
                row["psn_word"] = int(row["psn_word"]) & 0xFF000000 | psn


@mutant("MRC-SACK-10", "MRC-ECN-02", "MRC-ECN-03")
class MarksAreForgotten(_Rewritten):
    """m is 0 whether the trigger came CE or not."""

    def rewrite(self, fields: Fields) -> None:
        fields["seth_word"] &= np.uint16(~(3 << SETH_M_SHIFT) & 0xFFFF)


@mutant("MRC-SACK-01", "MRC-SACK-10")
class MarksOneBitTooHigh(_Rewritten):
    """m lies one bit higher in the SETH than it should."""

    def rewrite(self, fields: Fields) -> None:
        marks = fields["seth_word"] >> SETH_M_SHIFT & 3
        fields["seth_word"] = fields["seth_word"] & np.uint16(~(3 << SETH_M_SHIFT) & 0xFFFF) | marks << SETH_M_SHIFT + 1


@mutant("MRC-SACK-08")
class MprToldWithoutAgreement(_Rewritten):
    """mpr reports the window although dynamic MPR was not agreed."""

    def rewrite(self, fields: Fields) -> None:
        fields["mpr"] = self._window.units


@mutant("MRC-SACK-12")
class TimestampsAreNotReflected(_Rewritten):
    """The timestamp in a SACK is always 0."""

    def rewrite(self, fields: Fields) -> None:
        fields["tx_timestamp"] = 0


@mutant("MRC-SACK-13")
class OooCountCountsHolesToo(_Rewritten):
    """ooo_count is the distance from cack_psn to the highest PSN received."""

    def rewrite(self, fields: Fields) -> None:
        fields["ooo_count"] = self._received.highest - self._received.cack_psn


@mutant("MRC-SACK-14")
class RcvdBytesRoundedDown(_Rewritten):
    """rcvd_bytes is rounded down to units of 256 instead of up."""

    def rewrite(self, fields: Fields) -> None:
        fields["rcvd_word"] = self._penalty_word() | self.received_bytes // 256 & 0xFFFFFF


@mutant("MRC-SACK-14")
class RcvdBytesWithoutHeaders(SackMaker):
    """rcvd_bytes counts UDP lengths without the 40 bytes of an IPv6 header."""

    def count(self, size: int, forced: bool) -> bool:
        self.received_bytes -= 40 if size else 0
        return super().count(size, forced)


@mutant("MRC-SACK-17", "MRC-SACK-18", "MRC-SACK-19")
class OnlyBytesTriggerSacks(SackMaker):
    """AckReq, CE and rtx trigger no SACK; bytes alone do."""

    def count(self, size: int, forced: bool) -> bool:
        return super().count(size, False)


@mutant("MRC-SACK-15", "MRC-SACK-16")
class SmallPacketsCountAsTheyAre(SackMaker):
    """A packet below 1024 bytes counts as what it has towards the threshold."""

    def count(self, size: int, forced: bool) -> bool:
        self._bytes_since += size
        if not forced and self._bytes_since < self._threshold:
            return False
        self._bytes_since = 0
        return True


@mutant("MRC-SACK-15")
class AckreqDoesNotRestartTheCount(SackMaker):
    """A SACK that AckReq, CE or rtx triggered leaves the bytes counted before it."""

    def count(self, size: int, forced: bool) -> bool:
        counted = self._bytes_since + max(size, 1024)
        triggered = super().count(size, forced)
        if triggered and counted < self._threshold:
            self._bytes_since = counted
        return triggered


@mutant("MRC-SACK-22")
class BitmapAlwaysFromEpsn(SackMaker):
    """The bitmap starts at cack_psn + 1 however far away the highest PSN received is."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        for answer in taken(self.pending):
            answer.highest = min(answer.highest, self._received.cack_psn + _BITMAP)
            self.pending.add(answer)
        return super().transmit(batch, limit, now)


@mutant("MRC-SACK-22")
class TheTriggerEndsTheBitmap(SackMaker):
    """The bitmap ends with the packet that triggered the SACK instead of the highest received."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        for answer in taken(self.pending):
            answer.highest = answer.psn
            self.pending.add(answer)
        return super().transmit(batch, limit, now)


@mutant("MRC-SACK-23")
class ProbesDoNotSeeOldHoles(_Rewritten):
    """The bitmap of a SACK for a probe ends with the highest PSN received, like that of any other."""

    def rewrite(self, fields: Fields) -> None:
        base = max(self._received.highest - (_BITMAP - 1), self._received.epsn)
        for row in fields:
            if row["seth_word"] & 2:
                row["sack_offset"] = base - self._received.cack_psn
                row["bitmap"] = self._received.bitmap(base)


@mutant("MRC-SACK-25")
class SacksOnOnePlane(ControlEvs):
    """All control packets leave by the first EV of the profile."""

    def take_one(self, now: int) -> int:
        return 0


@mutant("MRC-SACK-26")
def service_time_without_agreement(endpoint: Endpoint, qp: QueuePair) -> None:
    """The time a packet was held is added to its timestamp although nobody agreed on that."""
    reflector: Any = qp.responder._reflector
    reflector._unit_0_ns, reflector._unit_1_ns = 128, endpoint.config.wire.tsr1_unit_ns


@mutant("MRC-SACK-26")
def service_time_in_one_unit(endpoint: Endpoint, qp: QueuePair) -> None:
    """The time held is counted in units of 128 ns, whatever the packet's tsr says."""
    reflector: Any = qp.responder._reflector
    reflector._unit_1_ns = reflector._unit_0_ns


@mutant("MRC-SACK-26")
class TimeHeldWithoutATimestamp(Reflector):
    """The time held is reflected where the request had no timestamp."""

    def _common(self, answer: Answer, packet: ReceivedPacket) -> None:
        super()._common(answer, packet)
        answer.unit_ns = self._unit_0_ns


@mutant("MRC-SACK-11")
class PenaltyBeforeRestore(_Rewritten):
    """The penalty is in the upper seven bits of its byte and restore_cwnd below it."""

    def rewrite(self, fields: Fields) -> None:
        restore, penalty = self._penalty_word() >> 31, self._penalty_word() >> 24 & 0x7F
        fields["rcvd_word"] = (penalty << 1 | restore) << 24 | fields["rcvd_word"] & np.uint32(0xFFFFFF)


@mutant("MRC-SACK-15")
class EveryPacketCounts1024Bytes(SackMaker):
    """Towards the threshold every packet counts 1024 bytes, however long it is."""

    def count(self, size: int, forced: bool) -> bool:
        return super().count(1024, forced)


@mutant("MRC-SACK-21", "MRC-RESP-03")
class IdleQpsAnswerNoProbe(SackMaker):
    """A probe is answered only once a request has come."""

    def on_probe(self, probe: Answer) -> None:
        if self.received_bytes:
            super().on_probe(probe)


@mutant("MRC-SACK-21")
class NothingAboveIsToldFromCackPsn(_Rewritten):
    """With nothing above cack_psn the bitmap starts at cack_psn itself."""

    def rewrite(self, fields: Fields) -> None:
        if not self._received.held:
            fields["sack_offset"] = 0


@mutant("MRC-SACK-07", "MRC-WIRE-02")
class SacksWithATail(Endpoint):
    """Four more bytes follow the CC_STATE."""

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        start = batch.count
        sent = super().transmit(batch, now)
        fields = batch.fields(COMMON, start, batch.count)
        longer = fields["opcode"] == Op.SACK
        batch.header_length[start : batch.count][longer] += 4
        for name in ("ip_plen", "udp_len"):
            fields[name][longer] += 4
        batch.seal(start)
        return sent
