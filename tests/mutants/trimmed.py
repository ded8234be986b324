# SPDX-License-Identifier: BSD-2-Clause
"""Responders that take trimmed packets for what they are not."""

from __future__ import annotations

from mrc.endpoint.datapath.receive import DROPPED, SOUND, PacketChecks
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.responder.responder import Responder
from mrc.wire.fields import COMMON
from mrc.wire.names import NackReason
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mutants.mutant import mutant, taken
from mutants.responders import _EachRequest

_KEPT_END = 40 + 8 + 12 + 8
_IPV6 = 40
_PLAIN_WRITE = 40 + 8 + 12 + 4 + 16 + 4  # up to BTH, METH, RETH and ICRC


@mutant("MRC-TRIM-04")
class OldLengthsAreWrong(PacketChecks):
    """A trimmed packet whose UDP length is still that of the whole packet is not known as trimmed."""

    def _is_whole(self, batch: ReceivedBatch, row: int, least: int, said: int) -> bool:
        there = batch.lengths[row] - _IPV6
        return super()._is_whole(batch, row, least, said) or int(batch.fields(COMMON)["udp_len"][row]) != there


@mutant("MRC-TRIM-05")
class TrimmedToTwentyBytesOrNotAtAll(PacketChecks):
    """Only a packet of exactly BTH and 8 bytes is a trimmed one."""

    def _is_whole(self, batch: ReceivedBatch, row: int, least: int, said: int) -> bool:
        return super()._is_whole(batch, row, least, said) or batch.lengths[row] != _KEPT_END


@mutant("MRC-TRIM-06")
class TheCodepointAloneTrims(PacketChecks):
    """A packet with a TRIMMED codepoint is a trimmed one however long it is."""

    def _is_whole(self, batch: ReceivedBatch, row: int, least: int, said: int) -> bool:
        return False


class _KnowsFewer(PacketChecks):
    """Drops some trimmed packets as broken: all but those that are `known`."""

    def known(self) -> bool:
        raise NotImplementedError

    def _cut(self) -> int:
        if self.known():
            return super()._cut()
        self._counters.bad_length += 1
        return DROPPED


@mutant("MRC-TRIM-10")
class OnlyWhatIsTooShortIsTrimmed(_KnowsFewer):
    """A packet that is long enough for headers and ICRC is never a trimmed one, whatever its lengths say."""

    def known(self) -> bool:
        return self.packet.length < _PLAIN_WRITE


@mutant("MRC-TRIM-10")
class TrimsOfALargerSizeAreUnknown(_KnowsFewer):
    """What is left of a trimmed packet has 256 bytes at most."""

    def known(self) -> bool:
        return self.packet.length <= 256 - _IPV6


@mutant("MRC-TRIM-05")
class ShortByTheIpLengthOnly(_KnowsFewer):
    """The UDP length of what is long enough is not held against what came."""

    def known(self) -> bool:
        there = self.packet.length
        return there < _PLAIN_WRITE or self.packet.plen + _IPV6 > there


@mutant("MRC-TRIM-05")
class AWrongIcrcIsDamageUnderAnyCodepoint(_KnowsFewer):
    """A packet with consistent lengths and a wrong ICRC is dropped, whatever its codepoint is."""

    def known(self) -> bool:
        there = self.packet.length
        return there < _PLAIN_WRITE or max(self.packet.plen, self.packet.udp_length) + _IPV6 > there


@mutant("MRC-TRIM-07")
class TrimmedPacketsArrive(_EachRequest):
    """The PSN of a trimmed packet counts as arrived."""

    def on_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        super().on_trimmed(batch, packet, lasthop, now)
        epsn, psn = self.received.epsn, self._psn(batch, packet)
        if epsn <= psn < self.window.end(epsn) and not self.received.has(psn):
            self.received.add(psn, True, FOREVER)


@mutant("MRC-SACK-14")
class RcvdBytesCountsTrimmed(Responder):
    """rcvd_bytes counts what is left of trimmed packets too."""

    def on_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        super().on_trimmed(batch, packet, lasthop, now)
        self.sacks.received_bytes += batch.lengths[packet.row]


@mutant("MRC-TRIM-06")
class ACodepointOfSwitchesIsEnoughToDrop(PacketChecks):
    """A whole packet with a TRIMMED codepoint is dropped: no host sends these."""

    def look(self, batch: ReceivedBatch, row: int) -> int:
        found = super().look(batch, row)
        if found != SOUND or not self._is_trimmed[batch.classes[row] >> 2]:
            return found
        self._counters.bad_length += 1
        return DROPPED


@mutant("MRC-NACK-03")
class NacksOfTrimmedPacketsNameNoEv(Responder):
    """The NACK of a trimmed packet has entropy 0, since nothing in such a packet is to be trusted."""

    def on_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        super().on_trimmed(batch, packet, lasthop, now)
        for answer in taken(self.nacks.pending):
            if answer.reason in (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP):
                answer.entropy = 0
            self.nacks.pending.add(answer)
