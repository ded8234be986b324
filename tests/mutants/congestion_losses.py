# SPDX-License-Identifier: BSD-2-Clause
"""NSCCs that take losses, NACKs and penalties for more or less than they are, or lose count of what is in flight."""

from __future__ import annotations

from mrc.endpoint.congestion import Nscc
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.send import RequestMaker
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire.names import NackReason
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant

# ------------------------------------------------------------------ quick adapt


@mutant("MRC-CC-14")
class JudgedAllTheTime(Nscc):
    """Quick adapt judges with each acknowledgement, whether its interval is over or not."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        self._qa_end = min(self._qa_end, now)
        return super()._quick_adapt(now, loss, marked, delay)


@mutant("MRC-CC-14")
class LittleIsReasonEnough(Nscc):
    """Quick adapt needs no reason but that little got through."""

    def _too_little_got_through(self, loss: bool, delay: int) -> bool:
        return super()._too_little_got_through(True, delay)


@mutant("MRC-CC-14")
class WhatWasAchievedStays(Nscc):
    """What got through is never counted anew."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        achieved = self._achieved
        handled = super()._quick_adapt(now, loss, marked, delay)
        self._achieved = achieved
        return handled


@mutant("MRC-CC-14")
class QuickAdaptHalves(Nscc):
    """Quick adapt halves the window instead of making it what got through."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        before, ignored = self._cwnd, self._ignored
        handled = super()._quick_adapt(now, loss, marked, delay)
        if handled and ignored and not self._ignored:
            self._cwnd = max(before // 2, self._mtu)
        return handled


@mutant("MRC-CC-14")
class QuickAdaptHasNoLeast(Nscc):
    """Quick adapt may leave less than a packet."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        mtu, self._mtu = self._mtu, 1
        handled = super()._quick_adapt(now, loss, marked, delay)
        self._mtu = mtu
        return handled


@mutant("MRC-CC-15")
class MarksCountAfterACut(Nscc):
    """After a quick adapt marks count at once."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        handled = super()._quick_adapt(now, loss, marked, delay)
        self._to_ignore = 0
        return handled


@mutant("MRC-CC-15")
class MarksNeverCountAgain(Nscc):
    """After a quick adapt no mark counts."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        handled = super()._quick_adapt(now, loss, marked, delay)
        if self._to_ignore:
            self._to_ignore = 1 << 60
        return handled


# ------------------------------------------------------------------ losses and NACKs


@mutant("MRC-CC-16")
class LossesCostNothing(Nscc):
    """A lost packet leaves the window as it is."""

    def lost(self, now: int, lost_bytes: int) -> None:
        cwnd = self._cwnd
        super().lost(now, lost_bytes)
        self._cwnd = cwnd


@mutant("MRC-CC-16")
class LossesHalve(Nscc):
    """Losses that are found together halve the window."""

    def lost(self, now: int, lost_bytes: int) -> None:
        cwnd = self._cwnd
        super().lost(now, lost_bytes)
        self._cwnd = max(cwnd // 2, self._mtu)


@mutant("MRC-CC-16")
class LossesHaveNoLeast(Nscc):
    """Losses may leave nothing of the window."""

    def lost(self, now: int, lost_bytes: int) -> None:
        mtu, self._mtu = self._mtu, 0
        super().lost(now, lost_bytes)
        self._mtu = mtu


@mutant("MRC-CC-17")
class TrimsAreNoReason(Nscc):
    """A trimmed packet is no reason for quick adapt later."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        super().nacked(now, nacked_bytes, trimmed)
        self._trigger_qa = False


@mutant("MRC-CC-17")
class TrimsAtTheLastHopAreOthers(NackHandler):
    """TRIMMED_LASTHOP is no reason for quick adapt later."""

    def _lose(self, psn: int, reason: int, now: int) -> None:
        super()._lose(psn, reason, now)
        if reason == NackReason.TRIMMED_LASTHOP and isinstance(self._controller, Nscc):
            self._controller._trigger_qa = False


@mutant("MRC-CC-17")
class EveryNackIsAReason(Nscc):
    """Any NACK is a reason for quick adapt later."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        super().nacked(now, nacked_bytes, True)


@mutant("MRC-CC-17")
class TrimmedBytesAreNotAccountedFor(Nscc):
    """The bytes of trimmed packets do not count as ignored."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        super().nacked(now, nacked_bytes, trimmed)
        if trimmed:
            self._ignored -= nacked_bytes


@mutant("MRC-CC-18")
class NacksCostNothing(Nscc):
    """A NACK takes nothing off the window."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        super().nacked(now, 0, trimmed)


@mutant("MRC-CC-18")
class NacksAreNotJudged(Nscc):
    """A NACK is no reason for quick adapt when it comes."""

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        return super()._quick_adapt(now, False, marked, delay)


@mutant("MRC-CC-18")
class NacksHaveNoLeast(Nscc):
    """NACKs may leave nothing of the window."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        mtu, self._mtu = self._mtu, 0
        super().nacked(now, nacked_bytes, trimmed)
        self._mtu = mtu


# ------------------------------------------------------------------ the receiver's penalty


@mutant("MRC-CC-19")
class PenaltiesLookAtCwndAlone(Nscc):
    """A penalty comes off cwnd, however little is in flight."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        inflight, self.inflight = self.inflight, 1 << 60
        held = super()._apply_receiver_penalty(acked_bytes, penalty, restore)
        self.inflight = inflight
        return held


@mutant("MRC-CC-19")
class PenaltiesAreHalf(Nscc):
    """A penalty takes p n >> 8 off."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        return super()._apply_receiver_penalty(acked_bytes // 2, penalty, restore)


@mutant("MRC-CC-19")
class PenaltiesHoldNothingBack(Nscc):
    """While there is a penalty inc grows as without one."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        super()._apply_receiver_penalty(acked_bytes, penalty, restore)
        return False


@mutant("MRC-CC-19")
class PenaltiesHaveNoLeast(Nscc):
    """A penalty may leave nothing of the window."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        mtu, self._mtu = self._mtu, -(1 << 40)
        held = super()._apply_receiver_penalty(acked_bytes, penalty, restore)
        self._mtu = mtu
        return held


@mutant("MRC-CC-20")
class EachPenaltySavesTheWindow(Nscc):
    """Each penalty with restore_cwnd saves the window anew, made small as it is."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        if penalty and restore:
            self._saved_cwnd = -1
        return super()._apply_receiver_penalty(acked_bytes, penalty, restore)


@mutant("MRC-CC-20")
class NothingIsRestored(Nscc):
    """The end of a penalty restores nothing."""

    def _restore_cwnd(self) -> None:
        self._saved_cwnd = -1


@mutant("MRC-CC-20")
class EveryWindowIsRestored(Nscc):
    """The end of a penalty restores the window, whether restore_cwnd was set or not."""

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        return super()._apply_receiver_penalty(acked_bytes, penalty, True)


# ------------------------------------------------------------------ in flight


@mutant("MRC-CC-21")
class RetransmissionsAreNotInFlight(RequestMaker):
    """What is sent again is not added to inflight again."""

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        super().transmit_again(batch, psn, ev, now)
        return 0


@mutant("MRC-CC-21")
class WhatIsGoneComesOffAgain(SentPackets):
    """A packet that was lost or NACKed comes off inflight once more when it is acknowledged after all."""

    def settle(self, transmission: int) -> int:
        super().settle(transmission)
        return self.log_size[transmission & self.log_mask]


@mutant("MRC-CC-21")
class LossesStayInFlight(SentPackets):
    """A packet that was lost or NACKed stays in flight, and never comes off."""

    def settle(self, transmission: int) -> int:
        size, entry = super().settle(transmission), transmission & self.log_mask
        return size if self.times_sent[self.log_psn[entry] & self.mask] == 1 else 0

    def lose(self, transmission: int) -> int:
        super().lose(transmission)
        return 0
