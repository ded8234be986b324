# SPDX-License-Identifier: BSD-2-Clause
"""NSCCs whose window takes marks, delays and acknowledgements for something else."""

from __future__ import annotations

from functools import partial
from typing import Any

from mrc.endpoint.congestion import NO_SAMPLE, EwmaDelay, FixedWindow, Nscc, NsccConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.acknowledgements import Acknowledgements
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.send import RequestMaker
from mrc.wire.fields import SACK
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mutants.congestion_parameters import with_config
from mutants.mutant import mutant

# ------------------------------------------------------------------ which controller


@mutant("MRC-CC-01", at_creation=True)
def nscc_is_not_the_default(endpoint: Endpoint, qp: QueuePair) -> None:
    """Who names no controller, or NSCC and nothing else, has a window that stays as it is."""
    factory: object = qp._controller_factory
    if getattr(factory, "config", None) == NsccConfig():
        qp._controller_factory = FixedWindow


@mutant("MRC-CC-02", at_creation=True)
def each_qp_has_its_own_window(endpoint: Endpoint, qp: QueuePair) -> None:
    """QPs to one destination share nothing."""
    qp._controller_factory = partial(qp._controller_factory)


# ------------------------------------------------------------------ bytes


@mutant("MRC-CC-03")
class HeadersDoNotCount(RequestMaker):
    """Packets count without 80 bytes of their headers."""

    def _append(self, batch: TransmitBatch, msn: int, *others: Any) -> int:
        return super()._append(batch, msn, *others) - 80


@mutant("MRC-CC-03")
class RcvdBytesIsBelieved(Feedback):
    """What rcvd_bytes says has arrived counts as acknowledged, in place of what was sent."""

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        super().on_sack(batch, row, now)
        told = (int(batch.fields(SACK)["rcvd_word"][row]) & 0xFFFFFF) * 256
        if told:
            self._controller.acknowledged(now, told, False, self._rtt.srtt, 0, False)


@mutant("MRC-CC-03")
class WhatIsReportedAgainCountsAgain(Acknowledgements):
    """Every packet in the bitmap of a SACK counts as acknowledged by it."""

    def _is_news(self, psn: int) -> bool:
        return True


# ------------------------------------------------------------------ the four ways


@mutant("MRC-CC-04")
class WhatIsMissingDoesNotMatter(Nscc):
    """Below target every delay that is one increases the window as the shortest does."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        base, parameters = self.base_rtt, self.parameters
        if rtt_ns != NO_SAMPLE and base is not None and parameters is not None and not marked:
            shortest = base + self._zero_delay
            rtt_ns = shortest if shortest < rtt_ns < base + parameters.target else rtt_ns
        super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)


@mutant("MRC-CC-05")
class NoIncreaseAboveTarget(Nscc):
    """Without a mark and above target the window stays."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        base, parameters = self.base_rtt, self.parameters
        if rtt_ns != NO_SAMPLE and base is not None and parameters is not None and not marked:
            rtt_ns = min(rtt_ns, base + parameters.target - 1)
        super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)


@mutant("MRC-CC-05")
class FairOnlyAboveTarget(Nscc):
    """A delay of just the target counts as below it."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        base, parameters = self.base_rtt, self.parameters
        if rtt_ns != NO_SAMPLE and base is not None and parameters is not None and rtt_ns == base + parameters.target:
            rtt_ns -= 1
        super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)


@mutant("MRC-CC-06")
class EveryDecreaseHalves(Nscc):
    """A decrease halves the window, however short the delay."""

    def _multiplicative_decrease(self, now: int) -> None:
        before, latest = self._cwnd, self._last_decrease
        super()._multiplicative_decrease(now)
        if self._last_decrease != latest:
            self._cwnd = max(before // 2, self._mtu)


@mutant("MRC-CC-07")
class EveryMarkDecreases(Nscc):
    """Decreases follow each other with each mark."""

    def _multiplicative_decrease(self, now: int) -> None:
        self._last_decrease = 0
        super()._multiplicative_decrease(now)


@mutant("MRC-CC-07")
class DecreasesAreFarApart(Nscc):
    """A decrease waits ten base_rtts for the next."""

    def _multiplicative_decrease(self, now: int) -> None:
        latest = self._last_decrease
        super()._multiplicative_decrease(now)
        if self._last_decrease != latest:
            self._last_decrease += 9 * (self.base_rtt or 0)


@mutant("MRC-CC-07")
class DecreasesHaveNoEnd(Nscc):
    """A decrease may leave less than a packet."""

    def _multiplicative_decrease(self, now: int) -> None:
        mtu, self._mtu = self._mtu, 1
        super()._multiplicative_decrease(now)
        self._mtu = mtu


@mutant("MRC-CC-08")
class MarksBelowTargetAreNotSeen(Nscc):
    """With a mark and below target the window grows as without one."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        base, parameters = self.base_rtt, self.parameters
        if rtt_ns != NO_SAMPLE and base is not None and parameters is not None:
            marked = marked and rtt_ns >= base + parameters.target
        super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)


@mutant("MRC-CC-08")
class AnyMarkDecreases(Nscc):
    """A mark below target decreases as one above it does."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)
        base, parameters = self.base_rtt, self.parameters
        if not marked or rtt_ns == NO_SAMPLE or base is None or parameters is None:
            return
        if rtt_ns < base + parameters.target and now - self._last_decrease > base:
            self._cwnd = max(self._cwnd * 4 // 5, self._mtu)
            self._last_decrease = now


class _AverageForSample(EwmaDelay):
    """Takes the average where there is no sample."""

    def without_sample(self) -> int | None:
        return self.value


@mutant("MRC-CC-09", at_creation=True)
def the_average_stands_for_a_sample(endpoint: Endpoint, qp: QueuePair) -> None:
    """An acknowledgement without a valid sample moves the window by the average delay."""
    with_config(qp, delay_average=_AverageForSample)


@mutant("MRC-CC-09")
class BytesWithoutASampleDoNotCount(Nscc):
    """An acknowledgement without a valid sample is not looked at."""

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        if rtt_ns != NO_SAMPLE:
            super().acknowledged(now, acked_bytes, marked, rtt_ns, penalty, restore)


# ------------------------------------------------------------------ how increases take effect


@mutant("MRC-CC-10")
class IncreasesTakeEffectAgain(Nscc):
    """Inc does not start again at 0."""

    def _fulfil(self, now: int) -> None:
        inc = self._inc
        super()._fulfil(now)
        self._inc = inc


@mutant("MRC-CC-10")
class ReceivedGoesOn(Nscc):
    """Received does not start again at 0: beyond adjust_bytes every acknowledgement fulfils."""

    def _fulfil(self, now: int) -> None:
        received = self._received
        super()._fulfil(now)
        self._received = received


@mutant("MRC-CC-11")
class EtaWithEveryFulfil(Nscc):
    """Eta is added with each fulfil, by bytes or by period."""

    def _fulfil(self, now: int) -> None:
        by_period = now - self._last_adjust >= self._adjust_period
        super()._fulfil(now)
        if not self._received and not by_period:
            self._cwnd = min(int(self._cwnd + self._eta), self._max_cwnd)


@mutant("MRC-CC-11")
class BytesMoveLastAdjust(Nscc):
    """A fulfil by bytes begins a period too."""

    def _fulfil(self, now: int) -> None:
        super()._fulfil(now)
        if not self._received:
            self._last_adjust = now


@mutant("MRC-CC-11")
class TheFirstAcknowledgementBeginsAPeriod(Nscc):
    """Last_adjust is the time of the first acknowledgement, so that this one adds no eta."""

    def _fulfil(self, now: int) -> None:
        self._last_adjust = self._last_adjust or now
        super()._fulfil(now)


@mutant("MRC-CC-12")
class IncreasesHaveNoMost(Nscc):
    """A fulfilled increase may exceed max_cwnd."""

    def _fulfil(self, now: int) -> None:
        most, self._max_cwnd = self._max_cwnd, 1 << 60
        super()._fulfil(now)
        self._max_cwnd = most


@mutant("MRC-CC-12")
class FastIncreasesHaveNoMost(Nscc):
    """A fast increase may exceed max_cwnd, until increases are fulfilled."""

    def _fast_increase(self, acked_bytes: int, delay: int) -> None:
        most, self._max_cwnd = self._max_cwnd, 1 << 60
        super()._fast_increase(acked_bytes, delay)
        self._max_cwnd = most


@mutant("MRC-CC-13")
class NoFastIncrease(Nscc):
    """A path without delay is taken as slowly as any other."""

    def _fast_increase(self, acked_bytes: int, delay: int) -> None:
        return


@mutant("MRC-CC-13")
class FastFromTheFirstOn(Nscc):
    """A fast increase begins with the first acknowledgement without delay."""

    def _fast_increase(self, acked_bytes: int, delay: int) -> None:
        self._increasing = True
        super()._fast_increase(acked_bytes, delay)


@mutant("MRC-CC-13")
class FastForEver(Nscc):
    """A fast increase that has begun goes on whatever the delay."""

    def _fast_increase(self, acked_bytes: int, delay: int) -> None:
        super()._fast_increase(acked_bytes, 0 if self._increasing else delay)
