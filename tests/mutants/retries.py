# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that give up too soon, too late or never."""

from __future__ import annotations

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.loss import RetryBudget
from mrc.endpoint.requestor.nacked import NackHandler
from mutants.mutant import mutant

_DEFAULT_T = 1024 << 14


@mutant("MRC-RETRY-01")
class OneBudgetForAll(RetryBudget):
    """A retry of one PSN is drawn from the budget of all that are out."""

    def draw(self, psn: int) -> bool:
        retries = self._sent.retries
        for slot in range(len(retries)):
            retries[slot] += slot != psn & self._sent.mask
        return super().draw(psn)


@mutant("MRC-RETRY-02")
class TimeoutsHaveABudgetOfTheirOwn(NackHandler):
    """What NACKs have drawn does not count when a local ACK timeout draws, and NACKs may come for ever."""

    def _lose(self, psn: int, reason: int, now: int) -> None:
        super()._lose(psn, reason, now)
        self._sent.retries[psn & self._sent.mask] -= 1


@mutant("MRC-RETRY-02", "MRC-RETRY-09")
class TimeoutsDrawNothing(Feedback):
    """A local ACK timeout sends again, and draws on no budget."""

    def _local_ack_timeout(self, now: int) -> None:
        self._sent.retries[self._sent.una & self._sent.mask] -= 1
        super()._local_ack_timeout(now)


@mutant("MRC-RETRY-03")
class NacksDrawTwice(NackHandler):
    """A NACK costs two retries."""

    def _lose(self, psn: int, reason: int, now: int) -> None:
        super()._lose(psn, reason, now)
        self._sent.retries[psn & self._sent.mask] += 1


class _LossesDraw(Feedback):
    """Losses draw on the budget: `_draw`."""

    def _draw(self) -> None:
        psn = self._sent.una
        if not self._retries.draw(psn):
            self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, "a loss"), psn)


@mutant("MRC-RETRY-04")
class HolesDraw(_LossesDraw):
    """A packet that is found missing by a hole costs a retry."""

    def _lose_holes(self, now: int) -> None:
        super()._lose_holes(now)
        self._draw()


@mutant("MRC-RETRY-04")
class PathTimersDraw(_LossesDraw):
    """A path timer that runs out costs a retry."""

    def _lose_timed_out(self, now: int) -> None:
        before = self._counters.losses_by_path_timer
        super()._lose_timed_out(now)
        if self._counters.losses_by_path_timer != before:
            self._draw()


@mutant("MRC-RETRY-05")
class TheUnitIsAMicrosecond(RetryBudget):
    """The unit of the local ACK timeout is 1 us instead of 1.024 us."""

    def _interval(self) -> int:
        return super()._interval() * 1000 // 1024


@mutant("MRC-RETRY-06")
class TheDefaultIsTwiceAsLong(RetryBudget):
    """Where no t is set it is 15."""

    def _interval(self) -> int:
        return super()._interval() << (self._timeout_ns == _DEFAULT_T)


@mutant("MRC-RETRY-07")
class LinearRetriesDouble(RetryBudget):
    """Every retry doubles the interval, the linear ones too."""

    def _interval(self) -> int:
        return self._timeout_ns << self.spent(self._psn)


@mutant("MRC-RETRY-07")
class ExponentialRetriesAreLinear(RetryBudget):
    """No retry doubles the interval."""

    def _interval(self) -> int:
        return self._timeout_ns


@mutant("MRC-RETRY-08")
class ForEverIsCounted(RetryBudget):
    """25 exponential retries are 25 and not for ever."""

    def draw(self, psn: int) -> bool:
        return super().draw(psn) and self.spent(psn) <= self._linear + self._exponential


@mutant("MRC-RETRY-03", "MRC-RETRY-09")
class OneRetryTooMany(RetryBudget):
    """The budget is gone one retry too late."""

    def draw(self, psn: int) -> bool:
        return super().draw(psn) or self.spent(psn) <= (self._linear + self._exponential + 1)
