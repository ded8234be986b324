# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The local ACK timeout and the retry budget: what gives up at last (behaviour.md, Retry budget)."""

from __future__ import annotations

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, QpConfig
from mrc.endpoint.congestion.estimates import MOST_TIMEOUTS, RttEstimator
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire.compiled import python
from mrc.wire.rows import PSN_BITS_MASK

_NO_DEADLINE, _FOREVER = FOREVER, int(EXPONENTIAL_RETRIES_FOREVER)
_NONE = -1
_LONGEST = 1 << 61  # ns


class RetryBudget:
    """The coarse timer of the oldest unacknowledged PSN, and the retries each PSN has drawn.

    Linear retries at the local ACK timeout, then exponential ones that double it each. The budget belongs to a PSN or,
    by a switch, to the QP, where it is whole again when the oldest PSN is another (MRC-RETRY-10). Local ACK timeouts
    and NACKs that name a PSN draw on it, holes and path timers do not. Where timeouts may draw only a part of it, they
    alone count for how long the next one waits: a PSN that was trimmed often does not wait for hours.

    Long round trips make intervals longer, but not all of them together: a peer that is silent is given up after
    `QpConfig.gives_up_after_ns`. An interval counts as what it was meant to take, however late its end is noticed: a
    stop of this endpoint itself uses up one interval at most.
    """

    _sent: SentPackets
    _rtt: RttEstimator
    _linear: int
    _exponential: int
    _timeout_ns: int
    _most_timeouts: int
    _per_qp: bool
    since: int
    waited: int
    waits_at_most: int
    _drawn: int
    _doublings: int
    _psn: int
    _timeouts: int
    next_deadline: int

    __slots__ = tuple(__annotations__)

    def __init__(self, config: QpConfig, sent: SentPackets, rtt: RttEstimator) -> None:
        self._sent = sent
        self._rtt = rtt
        self._linear, self._exponential = config.linear_retries, config.exponential_retries
        self._timeout_ns = config.local_ack_timeout_ns
        # Whether all PSNs draw on one budget, and what was drawn on it since the oldest PSN became that.
        self._per_qp, self._drawn = config.retry_budget_per_qp, 0
        # Of one PSN; _NONE where the budget alone counts.
        self._most_timeouts = _NONE if config.timeout_retries is None else config.timeout_retries
        # Of the interval that runs: when it began, ns, and how often it was doubled.
        self.since = self._doublings = 0
        # How long the intervals of the PSN that is watched have taken, and how long they may take, ns.
        self.waited = 0
        most = config.gives_up_after_ns
        # A budget of few retries is good for two of the longest round trips.
        self.waits_at_most = (
            _LONGEST if most is None else min(max(most, 2 * MOST_TIMEOUTS * self._timeout_ns), _LONGEST)
        )
        self._psn = _NONE
        self._timeouts = 0  # of the PSN that is watched
        self.next_deadline = _NO_DEADLINE

    def watch(self, oldest_psn: int, now: int) -> None:
        """Follow `oldest_psn`."""
        if oldest_psn != self._psn:
            self._psn = oldest_psn
            self._timeouts = self.waited = self._drawn = 0
            self.wait_again(now)

    def watch_unsent(self, psn: int, now: int) -> None:
        """Follow a PSN that waits for the window; it has drawn nothing yet."""
        if psn != self._psn:
            self._sent.retries[psn & self._sent.mask] = 0
        self.watch(psn, now)

    def rest(self) -> None:
        """All is acknowledged: follow nothing."""
        self._psn, self.next_deadline = _NONE, _NO_DEADLINE
        self.waited = 0

    def expired(self, now: int) -> bool:
        """Whether the interval has passed, as long as it is by what is known of the round trip now."""
        if now < self.next_deadline:
            return False
        self.next_deadline = self.since + self._interval()
        return now >= self.next_deadline

    def _interval(self) -> int:
        """The timeout, doubled as often as this one is to be, at least as long as round trips need, and never longer
        than what is left."""
        doubled = self._timeout_ns << self._doublings if self._timeout_ns <= _LONGEST >> self._doublings else _LONGEST
        return min(max(doubled, self._rtt.coarse_timer(self._timeout_ns)), self.waits_at_most - self.waited)

    def spent(self, psn: int) -> int:
        """Retries this PSN has drawn, or all of them where the budget is the QP's."""
        return self._drawn if self._per_qp else self._sent.retries[psn & self._sent.mask]

    def draw(self, psn: int) -> bool:
        """Spend one retry of this PSN. False when its budget is gone."""
        self._drawn += 1
        self._sent.retries[psn & self._sent.mask] += 1
        return self._exponential == _FOREVER or self.spent(psn) <= self._linear + self._exponential

    def draw_for_timeout(self, psn: int) -> bool:
        """`draw` for the PSN that is watched, whose timer ran out. False too when timeouts have had their part, or the
        peer has been silent for as long as it may be."""
        self._timeouts += 1
        self.waited += self.next_deadline - self.since
        return (
            self.draw(psn)
            and (self._most_timeouts == _NONE or self._timeouts <= self._most_timeouts)
            and (self.waited < self.waits_at_most or self.waits_at_most == _LONGEST)
        )

    def exceeded(self, psn: int, drawn_by: str) -> python[str]:
        """What to say when the budget of this PSN is gone. `drawn_by`: what would have taken one more."""
        return (
            f"retry counter exceeded: no acknowledgement of PSN {psn & PSN_BITS_MASK} "
            f"after {self.spent(psn) - 1} retries, then {drawn_by}"
        )

    def wait_on(self, now: int, heard: bool) -> bool:
        """The peer holds back the acknowledgement of the PSN that is watched, which has arrived: it may take its time.
        `heard`: in the interval that ends. False when it has been silent for as long as it may be."""
        self.waited = 0 if heard else self.waited + self.next_deadline - self.since
        self._timeouts = self._drawn = 0
        self._sent.retries[self._psn & self._sent.mask] = 0
        self.wait_again(now)
        return self.waited < self.waits_at_most or self.waits_at_most == _LONGEST

    def wait_again(self, now: int) -> None:
        """The next interval begins."""
        counted = self.spent(self._psn) if self._most_timeouts == _NONE else self._timeouts
        self._doublings = min(max(counted - self._linear, 0), _FOREVER)
        self.since = now
        self.next_deadline = now + self._interval()
