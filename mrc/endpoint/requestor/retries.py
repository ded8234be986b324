"""The local ACK timeout and the retry budget: what gives up at last (behaviour.md, Retry budget)."""

from __future__ import annotations

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, QpConfig
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.rtt import RttEstimator
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire.rows import PSN_BITS_MASK

_NO_DEADLINE, _FOREVER = FOREVER, int(EXPONENTIAL_RETRIES_FOREVER)
_NONE = -1
_LONGEST = 1 << 61  # ns


class RetryBudget:
    """The coarse timer of the oldest unacknowledged PSN, and the retries each PSN has drawn.

    Linear retries at the local ACK timeout, then exponential ones that double it each. The budget belongs to a PSN:
    local ACK timeouts and NACKs that name it draw on it, holes and path timers do not. Where timeouts may draw only a
    part of it, they alone count for how long the next one waits: a PSN that was trimmed often does not wait for hours.
    """

    __slots__ = (
        "_deadline",
        "_doublings",
        "_exponential",
        "_linear",
        "_most_timeouts",
        "_psn",
        "_rtt",
        "_sent",
        "_since",
        "_timeout_ns",
        "_timeouts",
    )

    def __init__(self, config: QpConfig, sent: SentPackets, rtt: RttEstimator) -> None:
        self._sent = sent
        self._rtt = rtt
        self._linear, self._exponential = config.linear_retries, config.exponential_retries
        self._timeout_ns = config.local_ack_timeout_ns
        # Of one PSN; _NONE where the budget alone counts.
        self._most_timeouts = _NONE if config.timeout_retries is None else config.timeout_retries
        # Of the interval that runs: when it began, and how often it was doubled.
        self._since = self._doublings = 0
        self._psn = _NONE
        self._timeouts = 0  # of the PSN that is watched
        self._deadline = _NONE

    def watch(self, oldest_psn: int, now: int) -> None:
        """Follow `oldest_psn`."""
        if oldest_psn != self._psn:
            self._psn = oldest_psn
            self._timeouts = 0
            self.wait_again(now)

    def watch_unsent(self, psn: int, now: int) -> None:
        """Follow a PSN that waits for the window; it has drawn nothing yet."""
        if psn != self._psn:
            self._sent.retries[psn & self._sent.mask] = 0
        self.watch(psn, now)

    def rest(self) -> None:
        """All is acknowledged: follow nothing."""
        self._psn = self._deadline = _NONE

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        return _NO_DEADLINE if self._deadline == _NONE else self._deadline

    def expired(self, now: int) -> bool:
        """Whether the interval has passed, as long as it is by what is known of the round trip now."""
        if self._deadline == _NONE or now < self._deadline:
            return False
        self._deadline = self._since + self._interval()
        return now >= self._deadline

    def _interval(self) -> int:
        return self._doubled(self._rtt.coarse_timer(self._timeout_ns))

    def _doubled(self, interval: int) -> int:
        """It as often as this one is to be doubled, and no longer than a clock counts."""
        return interval << self._doublings if interval <= _LONGEST >> self._doublings else _LONGEST

    def spent(self, psn: int) -> int:
        """Retries this PSN has drawn."""
        return self._sent.retries[psn & self._sent.mask]

    def draw(self, psn: int) -> bool:
        """Spend one retry of this PSN. False when its budget is gone."""
        slot = psn & self._sent.mask
        self._sent.retries[slot] += 1
        return self._exponential == _FOREVER or self._sent.retries[slot] <= self._linear + self._exponential

    def draw_for_timeout(self, psn: int) -> bool:
        """`draw` for the PSN that is watched, whose timer ran out. False too when timeouts have had their part."""
        self._timeouts += 1
        return self.draw(psn) and (self._most_timeouts == _NONE or self._timeouts <= self._most_timeouts)

    def exceeded(self, psn: int, drawn_by: str) -> str:
        """What to say when the budget of this PSN is gone. `drawn_by`: what would have taken one more."""
        return (
            f"retry counter exceeded: no acknowledgement of PSN {psn & PSN_BITS_MASK} "
            f"after {self.spent(psn) - 1} retries, then {drawn_by}"
        )

    def wait_again(self, now: int) -> None:
        """The next interval begins."""
        counted = self.spent(self._psn) if self._most_timeouts == _NONE else self._timeouts
        self._doublings = min(max(counted - self._linear, 0), _FOREVER)
        self._since = now
        self._deadline = now + self._interval()
