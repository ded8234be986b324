# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""When a transmission is lost, and when a PSN was lost too often (behaviour.md, Loss, Retry budget).

A hole or a path timer says that one is lost; NACKs report losses directly. The local ACK timeout gives up at last.
"""

from __future__ import annotations

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, LossConfig, QpConfig
from mrc.endpoint.congestion.estimates import MOST_TIMEOUTS, RttEstimator
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire.compiled import public, python
from mrc.wire.rows import PSN_BITS_MASK

_NEVER = _NONE = -1
_MAX_DOUBLINGS = 16
_LONG_AGO = 1 << 61
# Factors of times are kept to what 64 bits have room for.
_MOST = 1 << 20
# A path timer that runs this late shows that this endpoint itself stood still (SIGSTOP, a suspended machine). Shorter
# delays belong to the round trip: a busy machine has them again and again (C).
STOPPED_NS = 100_000_000
_RETRIES_FOREVER = int(EXPONENTIAL_RETRIES_FOREVER)
_LONGEST = 1 << 61  # ns


class LossDetector:
    """Derives lost transmissions from what was acknowledged. Works in order of transmission, not of PSN."""

    def __init__(self, sent: SentPackets, rtt: RttEstimator, config: LossConfig, local_ack_timeout_ns: int) -> None:
        self._sent = sent
        self._rtt = rtt
        self._guard_packets = config.reorder_guard_packets
        self._guard_divisor = min(config.reorder_guard_divisor, _MOST)
        self._guard_max_rtts = min(config.reorder_guard_max_rtts, _MOST)
        self._least_timer = config.path_timer_min_ns
        self._timer_at_first = config.path_timer_initial_ns
        self._local_ack_timeout = local_ack_timeout_ns
        self._guard_scale = 1
        self._guard_settles_at = 0
        # The latest transmission known to have arrived, or -1.
        self.latest_acked: public[int] = -1
        # The latest of the tail probes known to have arrived. A probe is no packet that others are counted by.
        self._probed_stop = self._probed_at = 0
        self._timer_at = _NEVER
        # Where a walk over the transmissions goes on.
        self._walk = 0
        # When the peer was last heard, and when it was heard again after a silence.
        # Never: whatever the clock says, until it is heard the peer is silent, and what comes first ends no silence.
        self._heard_at = -_LONG_AGO
        self._resumed_at = 0
        # Until when this endpoint itself stood still.
        self._stopped_until = _NEVER

    def on_heard(self, now: int) -> None:
        """The peer acknowledged something, old or new. After a silence all path timers start afresh: what was
        delayed by a stalled process or machine is not lost."""
        self._notice_stop(now)
        if self._heard_at != -_LONG_AGO and self._silent(now):
            self._resumed_at = now
        self._heard_at = now

    def _notice_stop(self, now: int) -> None:
        """A timer that is overdue by far says that nobody called this endpoint in time."""
        if self._timer_at != _NEVER and now - self._timer_at >= STOPPED_NS:
            self._stopped_until = now

    def tells_a_round_trip(self, sent_at: int) -> bool:
        """Whether this endpoint has been running since `sent_at`, ns: a stop of its own is no round trip."""
        return sent_at >= self._stopped_until

    def last_heard(self) -> int:
        """When the peer last acknowledged something, old or new, ns; long ago where it never has."""
        return self._heard_at

    def heard_since(self, at: int) -> bool:
        """Whether the peer acknowledged something, old or new, at `at` (ns) or later."""
        return self._heard_at >= at

    def _silent(self, now: int) -> bool:
        return now - self._heard_at > (self._rtt.srtt or self.path_timer())

    def guard(self) -> int:
        """The reorder guard in time, ns."""
        most = self._rtt.srtt * self._guard_max_rtts
        return min(self._rtt.srtt * self._guard_scale // self._guard_divisor, most)

    def path_timer(self) -> int:
        """The path timer of a first transmission, ns."""
        if not self._rtt.srtt:
            return min(self._timer_at_first, self._local_ack_timeout)
        return min(max(self._rtt.path_timer(), self._least_timer), self._longest_timer())

    def _longest_timer(self) -> int:
        return self._rtt.coarse_timer(self._local_ack_timeout)

    def on_spurious(self, now: int, took_ns: int) -> None:
        """A loss was none: its acknowledgement came `took_ns` after it was sent. Wait longer for what comes late.

        The guard doubles, once a round trip: what the last one let through says nothing about the new one. And it
        grows to how late this packet was.
        """
        if not self._rtt.srtt:
            return
        scale = -(-(took_ns - self._rtt.minimum) * self._guard_divisor // self._rtt.srtt)
        if now >= self._guard_settles_at:
            self._guard_settles_at = now + self._rtt.srtt
            scale = max(scale, 2 * self._guard_scale)
        most = self._guard_max_rtts * self._guard_divisor
        self._guard_scale = min(max(scale, self._guard_scale), most)

    def on_probe_answered(self, stop: int, asked_at: int) -> None:
        """A tail probe arrived that was asked for at `asked_at`, before transmission `stop`: what was sent a reorder
        guard in time before it has arrived too, or is lost."""
        if stop > self._probed_stop or (stop == self._probed_stop and asked_at > self._probed_at):
            self._probed_stop, self._probed_at = stop, asked_at

    # ------------------------------------------------------------------ holes

    def holes(self) -> bool:
        """Whether any transmission is lost by a hole: `next_hole` gives them one by one."""
        last = self._last_counted()
        while self._sent.head < last and not self._sent.log_outstanding[self._sent.head & self._sent.log_mask]:
            self._sent.head += 1
        return self._sent.head < last and self._old_enough(self._sent.head)

    def next_hole(self) -> int:
        """The oldest outstanding transmission that is at least one reorder guard older than the latest one
        acknowledged, or -1. It counts as settled from now on."""
        if not self.holes():
            return -1
        self._sent.head += 1
        return self._sent.head - 1

    def _last_counted(self) -> int:
        return max(self.latest_acked - self._guard_packets + 1, self._probed_stop)

    def _old_enough(self, number: int) -> bool:
        """Whether a transmission left a reorder guard in packets and in time before the latest acknowledged one, or
        one in time before a probe that arrived. Sending times rise with the transmission number."""
        guard, at = self.guard(), self._sent.log_sent_at[number & self._sent.log_mask]
        if number < self._probed_stop and at <= self._probed_at - guard:
            return True
        counted = number <= self.latest_acked - self._guard_packets
        return counted and at <= self._sent.log_sent_at[self.latest_acked & self._sent.log_mask] - guard

    # ------------------------------------------------------------------ path timers

    def arm(self, now: int, alone: bool) -> None:
        """Something was sent: its path timer runs, unless an earlier one does.

        `alone`: nothing else was outstanding. A timer that runs was that of packets which have arrived since, and may
        have run out long ago.
        """
        deadline = now + self.path_timer()
        if alone or self._timer_at == _NEVER or deadline < self._timer_at:
            self._timer_at = deadline

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        return self._timer_at if self._sent.outstanding and self._timer_at != _NEVER else FOREVER

    def look_for_timeouts(self, now: int) -> None:
        """Begin a walk over the transmissions whose path timer ran out: `next_timed_out` gives them one by one.

        A path timer compares one path with the others. While no path brings anything it is inconclusive: then it
        waits, probes ask, and the local ACK timeout decides.
        """
        self._walk = self._sent.next_transmission
        if self._timer_at == _NEVER or now < self._timer_at:
            return
        self._notice_stop(now)
        if self._silent(now):
            self._timer_at = now + self.path_timer()
            return
        self._timer_at = _NEVER
        self._walk = self._sent.head

    def next_timed_out(self, now: int) -> int:
        """The next outstanding transmission whose path timer ran out, or -1; the timer doubles with each repeat of a
        PSN."""
        while self._walk < self._sent.next_transmission:
            number = self._walk
            self._walk = number + 1
            if self._sent.log_outstanding[number & self._sent.log_mask]:
                deadline = self._since(number) + self._timer_of(number)
                if deadline <= now:
                    return number
                if self._timer_at == _NEVER or deadline < self._timer_at:
                    self._timer_at = deadline
        return _NONE

    def look_at_all(self) -> None:
        """Begin a walk with the oldest transmission, for `next_unanswered`."""
        self._walk = self._sent.head

    def next_unanswered(self, now: int) -> int:
        """The next outstanding transmission that the longest path timer has run out for, were the peer silent or not,
        or -1."""
        while self._walk < self._sent.next_transmission:
            number = self._walk
            self._walk = number + 1
            if self._sent.log_outstanding[number & self._sent.log_mask]:
                deadline = self._since(number) + self._longest_timer()
                if deadline <= now:
                    return number
        return _NONE

    def _since(self, number: int) -> int:
        """When the timer of a transmission began to run."""
        return max(self._sent.log_sent_at[number & self._sent.log_mask], self._resumed_at)

    def _timer_of(self, number: int) -> int:
        """The path timer of a transmission."""
        repeats = self._times_sent(self._sent.log_psn[number & self._sent.log_mask]) - 1
        return min(self.path_timer() << min(repeats, _MAX_DOUBLINGS), self._longest_timer())

    def _times_sent(self, psn: int) -> int:
        return self._sent.times_sent[psn & self._sent.mask]


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

    def __init__(self, config: QpConfig, sent: SentPackets, rtt: RttEstimator) -> None:
        self._sent = sent
        self._rtt = rtt
        self._linear = config.linear_retries
        self._exponential = config.exponential_retries
        self._timeout_ns = config.local_ack_timeout_ns
        # Whether all PSNs draw on one budget, and what was drawn on it since the oldest PSN became that.
        self._per_qp = config.retry_budget_per_qp
        self._drawn = 0
        # Of one PSN; _NONE where the budget alone counts.
        self._most_timeouts: int = _NONE if config.timeout_retries is None else config.timeout_retries
        # Of the interval that runs: when it began, ns, and how often it was doubled.
        self.since = self._doublings = 0
        # Of the PSN that is watched: the ns that its intervals have taken, and the most that they may take.
        self.waited = 0
        most = config.gives_up_after_ns
        # A budget of few retries is good for two of the longest round trips.
        self.waits_at_most: int = (
            _LONGEST if most is None else min(max(most, 2 * MOST_TIMEOUTS * self._timeout_ns), _LONGEST)
        )
        self._psn = _NONE
        self._timeouts = 0  # of the PSN that is watched
        self.next_deadline = FOREVER

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
        self._psn, self.next_deadline = _NONE, FOREVER
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
        return self._exponential == _RETRIES_FOREVER or self.spent(psn) <= self._linear + self._exponential

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
        self._doublings = min(max(counted - self._linear, 0), _RETRIES_FOREVER)
        self.since = now
        self.next_deadline = now + self._interval()
