"""Requestors that give up too soon, too late or never."""

from __future__ import annotations

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.nacked import NackHandler, NackReason
from mrc.endpoint.requestor import Requestor
from mrc.endpoint.retries import RetryBudget
from mrc.endpoint.tracing import HOLE, PATH_TIMER
from mrc.wire.rows import I64

_DEFAULT_T = 14


@mutant("MRC-RETRY-01")
class OneBudgetForAll(RetryBudget):
    """A retry of one PSN is drawn from the budget of all that are out."""

    __slots__ = ()

    def draw(self, psn: int) -> bool:
        self._sent.retries += 1
        self._sent.retries[psn & self._sent.mask] -= 1
        return super().draw(psn)


@mutant("MRC-RETRY-02")
class TimeoutsHaveABudgetOfTheirOwn(NackHandler):
    """What NACKs have drawn does not count when a local ACK timeout draws, and NACKs may come for ever."""

    __slots__ = ()

    def _lose(self, psn: int, reason: NackReason, now: int) -> None:
        super()._lose(psn, reason, now)
        self._sent.retries[psn & self._sent.mask] -= 1


@mutant("MRC-RETRY-02", "MRC-RETRY-09")
class TimeoutsDrawNothing(Requestor):
    """A local ACK timeout sends again, and draws on no budget."""

    __slots__ = ()

    def _local_ack_timeout(self, now: int) -> None:
        self.sent.retries[self.sent.una & self.sent.mask] -= 1
        super()._local_ack_timeout(now)


@mutant("MRC-RETRY-03")
class NacksDrawTwice(NackHandler):
    """A NACK costs two retries."""

    __slots__ = ()

    def _lose(self, psn: int, reason: NackReason, now: int) -> None:
        super()._lose(psn, reason, now)
        self._sent.retries[psn & self._sent.mask] += 1


class _LossesDraw(Requestor):
    """Losses that some trigger found draw on the budget."""

    __slots__ = ()
    trigger = ""

    def _lose(self, transmissions: I64, trigger: str, now: int) -> None:
        super()._lose(transmissions, trigger, now)
        psn = self.sent.una
        if trigger == self.trigger and not self._retries.draw(psn):
            self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, trigger), psn)


@mutant("MRC-RETRY-04")
class HolesDraw(_LossesDraw):
    """A packet that is found missing by a hole costs a retry."""

    __slots__ = ()
    trigger = HOLE


@mutant("MRC-RETRY-04")
class PathTimersDraw(_LossesDraw):
    """A path timer that runs out costs a retry."""

    __slots__ = ()
    trigger = PATH_TIMER


@mutant("MRC-RETRY-05")
class TheUnitIsAMicrosecond(RetryBudget):
    """The unit of the local ACK timeout is 1 us instead of 1.024 us."""

    __slots__ = ()

    def _interval(self) -> int:
        return super()._interval() * 1000 // 1024


@mutant("MRC-RETRY-06")
class TheDefaultIsTwiceAsLong(RetryBudget):
    """Where no t is set it is 15."""

    __slots__ = ()

    def _interval(self) -> int:
        return super()._interval() << (self._config.timeout == _DEFAULT_T)


@mutant("MRC-RETRY-07")
class LinearRetriesDouble(RetryBudget):
    """Every retry doubles the interval, the linear ones too."""

    __slots__ = ()

    def _interval(self) -> int:
        return self._config.local_ack_timeout_ns << self.spent(self._psn)


@mutant("MRC-RETRY-07")
class ExponentialRetriesAreLinear(RetryBudget):
    """No retry doubles the interval."""

    __slots__ = ()

    def _interval(self) -> int:
        return self._config.local_ack_timeout_ns


@mutant("MRC-RETRY-08")
class ForEverIsCounted(RetryBudget):
    """25 exponential retries are 25 and not for ever."""

    __slots__ = ()

    def draw(self, psn: int) -> bool:
        return super().draw(psn) and self.spent(psn) <= self._config.linear_retries + self._config.exponential_retries


@mutant("MRC-RETRY-03", "MRC-RETRY-09")
class OneRetryTooMany(RetryBudget):
    """The budget is gone one retry too late."""

    __slots__ = ()

    def draw(self, psn: int) -> bool:
        return super().draw(psn) or self.spent(psn) <= (
            self._config.linear_retries + self._config.exponential_retries + 1
        )
