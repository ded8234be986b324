"""Requestors whose path timers and guards run wrong, and that send again more than they may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.received import I64
from mrc.endpoint.requestor import Requestor

_NONE: I64 = np.zeros(0, np.int64)


@mutant("MRC-LOSS-04")
class PathTimersLoseNothing(LossDetector):
    """No path timer runs: what nothing later is acknowledged of waits for the local ACK timeout."""

    __slots__ = ()

    def next_deadline(self) -> int | None:
        return None

    def timed_out(self, now: int) -> I64:
        return _NONE


@mutant("MRC-LOSS-04")
class OneTimerForAll(LossDetector):
    """When the path timer of one packet runs out all that are out are lost."""

    __slots__ = ()

    def timed_out(self, now: int) -> I64:
        lost = super().timed_out(now)
        return self._sent.outstanding_until(self._sent.next_transmission) if len(lost) else lost


@mutant("MRC-LOSS-07")
def path_timers_of_half_a_millisecond(endpoint: Endpoint, qp: QueuePair) -> None:
    """The least path timer is 0.5 ms."""
    loss: Any = qp.requestor.loss
    loss._config = replace(loss._config, path_timer_min_ns=500_000)


@mutant("MRC-LOSS-07")
def path_timers_of_a_millisecond_at_first(endpoint: Endpoint, qp: QueuePair) -> None:
    """Before the first sample of a round trip the path timer is 1 ms."""
    loss: Any = qp.requestor.loss
    loss._config = replace(loss._config, path_timer_initial_ns=1_000_000)


@mutant("MRC-LOSS-07")
class PathTimersAreAlwaysAMillisecond(LossDetector):
    """The path timer is 1 ms however long round trips take."""

    __slots__ = ()

    @property
    def path_timer_ns(self) -> int:
        return self._config.path_timer_min_ns if self._rtt.srtt else super().path_timer_ns


class _Repeats(LossDetector):
    """Counts something else than how often a PSN was sent while its timers are looked at."""

    __slots__ = ()

    def counted(self, times: I64) -> I64:
        raise NotImplementedError

    def timed_out(self, now: int) -> I64:
        times = self._sent.times_sent
        before = times.copy()
        times[:] = self.counted(before)
        try:
            return super().timed_out(now)
        finally:
            times[:] = before


@mutant("MRC-LOSS-08")
class PathTimersDoNotDouble(_Repeats):
    """The path timer is the same for a packet that was sent often."""

    __slots__ = ()

    def counted(self, times: I64) -> I64:
        return np.minimum(times, 1)


@mutant("MRC-LOSS-08")
class PathTimersDoubleTwice(_Repeats):
    """The path timer of a packet sent again is four times as long, and not twice."""

    __slots__ = ()

    def counted(self, times: I64) -> I64:
        return 2 * times - 1


@mutant("MRC-LOSS-08")
class PathTimersDoubleForEver(LossDetector):
    """The path timer doubles beyond the local ACK timeout."""

    __slots__ = ()

    def timed_out(self, now: int) -> I64:
        most, self._local_ack_timeout = self._local_ack_timeout, 1 << 60
        try:
            return super().timed_out(now)
        finally:
            self._local_ack_timeout = most


@mutant("MRC-LOSS-06")
class TheGuardStays(LossDetector):
    """The reorder guard is what it was whatever proves spurious."""

    __slots__ = ()

    def on_spurious(self, now: int, took_ns: int) -> None:
        return


@mutant("MRC-LOSS-06")
class TheGuardGrowsOnce(LossDetector):
    """The reorder guard grows with the first spurious retransmission and not with those after it."""

    __slots__ = ()

    def on_spurious(self, now: int, took_ns: int) -> None:
        if self._guard_scale == 1:
            super().on_spurious(now, took_ns)
            self._guard_scale = min(self._guard_scale, 2)


@mutant("MRC-LOSS-06")
class EveryLossMakesTheGuardGrow(LossDetector):
    """The reorder guard grows with each hole, whether it was a loss or not."""

    __slots__ = ()

    def holes(self) -> I64:
        lost = super().holes()
        if len(lost):
            self._guard_scale *= 2
        return lost


@mutant("MRC-LOSS-12")
class RetransmissionsNeedNoRoom(Requestor):
    """What was lost is sent again whatever cwnd is."""

    __slots__ = ()

    def _congestion_room(self) -> int:
        lost = sum(map(self._sender._is_lost, self._sender.resend))
        return max(super()._congestion_room(), lost * self.packet_bytes)
