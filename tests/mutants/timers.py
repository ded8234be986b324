# SPDX-License-Identifier: BSD-2-Clause
"""Requestors whose path timers and guards run wrong, and that send again more than they may."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.loss import LossDetector
from mrc.endpoint.requestor.send import SendRoom
from mutants.mutant import mutant

_NONE = -1
# Where a walk goes on that takes whatever is out.
_ALL = -2


@mutant("MRC-LOSS-04")
class PathTimersLoseNothing(LossDetector):
    """No path timer runs: what nothing later is acknowledged of waits for the local ACK timeout."""

    def next_deadline(self) -> int:
        return FOREVER

    def next_timed_out(self, now: int) -> int:
        return _NONE


@mutant("MRC-LOSS-04")
class OneTimerForAll(LossDetector):
    """When the path timer of one packet runs out all that are out are lost."""

    def next_timed_out(self, now: int) -> int:
        sent = self._sent
        if self._walk != _ALL and super().next_timed_out(now) == _NONE:
            return _NONE
        self._walk = _ALL
        sent.skip_settled()
        return sent.head if sent.head < sent.next_transmission else _NONE


@mutant("MRC-LOSS-07")
def path_timers_of_half_a_millisecond(endpoint: Endpoint, qp: QueuePair) -> None:
    """The least path timer is 0.5 ms."""
    loss: Any = qp.requestor.loss
    loss._least_timer = 500_000


@mutant("MRC-LOSS-07")
def path_timers_of_a_millisecond_at_first(endpoint: Endpoint, qp: QueuePair) -> None:
    """Before the first sample of a round trip the path timer is 1 ms."""
    loss: Any = qp.requestor.loss
    loss._timer_at_first = 1_000_000


@mutant("MRC-LOSS-07")
class PathTimersAreAlwaysAMillisecond(LossDetector):
    """The path timer is 1 ms however long round trips take."""

    def path_timer(self) -> int:
        return self._least_timer if self._rtt.srtt else super().path_timer()


@mutant("MRC-LOSS-08")
class PathTimersDoNotDouble(LossDetector):
    """The path timer is the same for a packet that was sent often."""

    def _times_sent(self, psn: int) -> int:
        return min(super()._times_sent(psn), 1)


@mutant("MRC-LOSS-08")
class PathTimersDoubleTwice(LossDetector):
    """The path timer of a packet sent again is four times as long, and not twice."""

    def _times_sent(self, psn: int) -> int:
        return 2 * super()._times_sent(psn) - 1


@mutant("MRC-LOSS-08")
class PathTimersDoubleForEver(LossDetector):
    """The path timer doubles beyond the local ACK timeout."""

    def _timer_of(self, number: int) -> int:
        most, self._local_ack_timeout = self._local_ack_timeout, 1 << 60
        timer = super()._timer_of(number)
        self._local_ack_timeout = most
        return timer


@mutant("MRC-LOSS-06")
class TheGuardStays(LossDetector):
    """The reorder guard is what it was whatever proves spurious."""

    def on_spurious(self, now: int, took_ns: int) -> None:
        return


@mutant("MRC-LOSS-06")
class TheGuardGrowsOnce(LossDetector):
    """The reorder guard grows with the first spurious retransmission and not with those after it."""

    def on_spurious(self, now: int, took_ns: int) -> None:
        if self._guard_scale == 1:
            super().on_spurious(now, took_ns)
            self._guard_scale = min(self._guard_scale, 2)


@mutant("MRC-LOSS-06")
class EveryLossMakesTheGuardGrow(LossDetector):
    """The reorder guard grows with each hole, whether it was a loss or not."""

    def next_hole(self) -> int:
        lost = super().next_hole()
        if lost >= 0:
            self._guard_scale *= 2
        return lost


@mutant("MRC-LOSS-12")
class RetransmissionsNeedNoRoom(SendRoom):
    """What was lost is sent again whatever cwnd is."""

    def of_window(self) -> int:
        lost = sum(map(self._sent.waits_to_leave, self._sender.resend.keys()))
        return max(super().of_window(), lost << 16)
