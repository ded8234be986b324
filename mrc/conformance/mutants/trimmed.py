"""Responders that take trimmed packets for what they are not."""

from __future__ import annotations

import numpy as np

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.packet_checks import PacketChecks, Trimmed
from mrc.endpoint.received import I64
from mrc.endpoint.resource_limits import Bools
from mrc.endpoint.responder import Responder
from mrc.wire.psn import psn_diff_array
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import COMMON, PSN_BITS_MASK, REQUEST

_BTH_AND_METH_END = 40 + 8 + 12 + 4
_KEPT_END = 40 + 8 + 12 + 8
_IPV6 = 40
_PLAIN_WRITE = _BTH_AND_METH_END + 16 + 4  # RETH and ICRC


@mutant("MRC-TRIM-04")
class OldLengthsAreWrong(PacketChecks):
    """A trimmed packet whose UDP length is still that of the whole packet is not known as trimmed."""

    __slots__ = ()

    def _trimmed(self, batch: ReceivedBatch, rows: I64) -> Bools:
        there = batch.length[rows] - _IPV6
        return np.asarray(super()._trimmed(batch, rows) & (batch.fields(COMMON)["udp_len"][rows] == there))


@mutant("MRC-TRIM-05")
class TrimmedToTwentyBytesOrNotAtAll(PacketChecks):
    """Only a packet of exactly BTH and 8 bytes is a trimmed one."""

    __slots__ = ()

    def _trimmed(self, batch: ReceivedBatch, rows: I64) -> Bools:
        return np.asarray(super()._trimmed(batch, rows) & (batch.length[rows] == _KEPT_END))


@mutant("MRC-TRIM-06")
class TheCodepointAloneTrims(PacketChecks):
    """A packet with a TRIMMED codepoint is a trimmed one however long it is."""

    __slots__ = ()

    def _trimmed(self, batch: ReceivedBatch, rows: I64) -> Bools:
        codepoints = self._wire.trimmed_dscps
        marked = np.isin(batch.traffic_class[rows] >> 2, codepoints)
        return np.asarray(marked & (batch.length[rows] >= _BTH_AND_METH_END))

    def sound_rows(self, batch: ReceivedBatch) -> tuple[I64, Trimmed | None]:
        return self._sorted_out(batch)

    def is_sound(self, batch: ReceivedBatch, row: int, length: int) -> bool:
        return not self._marked(batch, np.array([row]))[0] and super().is_sound(batch, row, length)


class _KnowsFewer(PacketChecks):
    """Drops some trimmed packets as broken: all but the rows that `known` names."""

    __slots__ = ()

    def known(self, batch: ReceivedBatch, rows: I64) -> Bools:
        raise NotImplementedError

    def _cut(self, batch: ReceivedBatch, rows: I64) -> Trimmed | None:
        known = self.known(batch, rows)
        self._counters.bad_length += int(np.count_nonzero(~known))
        return super()._cut(batch, rows[known])


@mutant("MRC-TRIM-10")
class OnlyWhatIsTooShortIsTrimmed(_KnowsFewer):
    """A packet that is long enough for headers and ICRC is never a trimmed one, whatever its lengths say."""

    __slots__ = ()

    def known(self, batch: ReceivedBatch, rows: I64) -> Bools:
        return np.asarray(batch.length[rows] < _PLAIN_WRITE)


@mutant("MRC-TRIM-10")
class TrimsOfALargerSizeAreUnknown(_KnowsFewer):
    """What is left of a trimmed packet has 256 bytes at most."""

    __slots__ = ()

    def known(self, batch: ReceivedBatch, rows: I64) -> Bools:
        return np.asarray(batch.length[rows] <= 256 - _IPV6)


@mutant("MRC-TRIM-05")
class ShortByTheIpLengthOnly(_KnowsFewer):
    """The UDP length of what is long enough is not held against what came."""

    __slots__ = ()

    def known(self, batch: ReceivedBatch, rows: I64) -> Bools:
        there = batch.length[rows]
        return np.asarray((there < _PLAIN_WRITE) | (batch.fields(COMMON)["ip_plen"][rows] + _IPV6 > there))


@mutant("MRC-TRIM-05")
class AWrongIcrcIsDamageUnderAnyCodepoint(_KnowsFewer):
    """A packet with consistent lengths and a wrong ICRC is dropped, whatever its codepoint is."""

    __slots__ = ()

    def known(self, batch: ReceivedBatch, rows: I64) -> Bools:
        fields, there = batch.fields(COMMON)[rows], batch.length[rows]
        said = np.maximum(fields["ip_plen"], fields["udp_len"]) + np.int64(_IPV6)
        return np.asarray((there < _PLAIN_WRITE) | (said > there))


@mutant("MRC-TRIM-07")
class TrimmedPacketsArrive(Responder):
    """The PSN of a trimmed packet counts as arrived."""

    __slots__ = ()

    def on_trimmed(self, batch: ReceivedBatch, rows: I64, lasthop: Bools, now: int) -> None:
        super().on_trimmed(batch, rows, lasthop, now)
        epsn = self.received.epsn
        words = batch.fields(REQUEST)["psn_word"][rows].astype(np.int64) & PSN_BITS_MASK
        psns = epsn + psn_diff_array(words, epsn & PSN_BITS_MASK)
        psns = psns[(psns >= epsn) & (psns < self.window.end(epsn))]
        if len(psns):
            self.received.add(psns, np.ones(len(psns), np.bool_))


@mutant("MRC-SACK-14")
class RcvdBytesCountsTrimmed(Responder):
    """rcvd_bytes counts what is left of trimmed packets too."""

    __slots__ = ()

    def on_trimmed(self, batch: ReceivedBatch, rows: I64, lasthop: Bools, now: int) -> None:
        super().on_trimmed(batch, rows, lasthop, now)
        self.sacks.received_bytes += int(batch.length[rows].sum())


@mutant("MRC-TRIM-06")
class ACodepointOfSwitchesIsEnoughToDrop(PacketChecks):
    """A whole packet with a TRIMMED codepoint is dropped: no host sends these."""

    __slots__ = ()

    def sound_rows(self, batch: ReceivedBatch) -> tuple[I64, Trimmed | None]:
        rows, trimmed = super().sound_rows(batch)
        marked = np.isin(batch.traffic_class[rows] >> 2, self._wire.trimmed_dscps)
        self._counters.bad_length += int(marked.sum())
        return rows[~marked], trimmed

    def is_sound(self, batch: ReceivedBatch, row: int, length: int) -> bool:
        return int(batch.traffic_class[row]) >> 2 not in self._wire.trimmed_dscps and super().is_sound(
            batch, row, length
        )


@mutant("MRC-NACK-03")
class NacksOfTrimmedPacketsNameNoEv(Responder):
    """The NACK of a trimmed packet has entropy 0, since nothing in such a packet is to be trusted."""

    __slots__ = ()

    def on_trimmed(self, batch: ReceivedBatch, rows: I64, lasthop: Bools, now: int) -> None:
        super().on_trimmed(batch, rows, lasthop, now)
        for refusal in self.nacks.pending.take(self.nacks.pending.count):
            if refusal.reason in (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP):
                refusal.reflected.entropy = 0
            self.nacks.pending.add(refusal)
