"""When a transmission is lost (behaviour.md, Loss): by a hole, or by its path timer. NACKs are told directly."""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import LossConfig
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sent import SentPackets

I64 = npt.NDArray[np.int64]
_NONE: I64 = np.zeros(0, np.int64)
# So few transmissions cost less one by one than arrays of them do.
_FEW = 6
_MAX_DOUBLINGS = 16


class AfterAll(NamedTuple):
    """Behind all transmissions below `stop`, at `at` ns: where a tail probe was sent, or a packet a guard before it."""

    stop: int
    at: int


class LossDetector:
    """Told what was acknowledged, answers which transmissions are lost. Works in order of transmission, not of PSN."""

    __slots__ = (
        "_config",
        "_guard_scale",
        "_guard_settles_at",
        "_heard_at",
        "_local_ack_timeout",
        "_probed",
        "_resumed_at",
        "_rtt",
        "_sent",
        "_timer_at",
        "latest_acked",
    )

    def __init__(self, sent: SentPackets, rtt: RttEstimator, config: LossConfig, local_ack_timeout_ns: int) -> None:
        self._sent = sent
        self._rtt = rtt
        self._config = config
        self._local_ack_timeout = local_ack_timeout_ns
        self._guard_scale = 1
        self._guard_settles_at = 0
        # The latest transmission known to have arrived, or -1.
        self.latest_acked = -1
        # The latest of the tail probes known to have arrived. A probe is no packet that others are counted by.
        self._probed = AfterAll(0, 0)
        self._timer_at: int | None = None
        # When the peer was last heard, and when it was heard again after a silence.
        self._heard_at = 0
        self._resumed_at = 0

    def on_heard(self, now: int) -> None:
        """The peer acknowledged something, old or new. After a silence all path timers start afresh: what was
        delayed by a stalled process or machine is not lost."""
        if self._silent(now):
            self._resumed_at = now
        self._heard_at = now

    def _silent(self, now: int) -> bool:
        return now - self._heard_at > (self._rtt.srtt or self.path_timer_ns)

    @property
    def guard_ns(self) -> int:
        """The reorder guard in time."""
        most = self._rtt.srtt * self._config.reorder_guard_max_rtts
        return min(self._rtt.srtt * self._guard_scale // self._config.reorder_guard_divisor, most)

    @property
    def path_timer_ns(self) -> int:
        """The path timer of a first transmission."""
        if not self._rtt.srtt:
            return min(self._config.path_timer_initial_ns, self._local_ack_timeout)
        return min(max(self._rtt.path_timer, self._config.path_timer_min_ns), self._longest_timer)

    @property
    def _longest_timer(self) -> int:
        return self._rtt.coarse_timer(self._local_ack_timeout)

    def on_spurious(self, now: int, took_ns: int) -> None:
        """A loss was none: its acknowledgement came `took_ns` after it was sent. Wait longer for what comes late.

        The guard doubles, once a round trip: what the last one let through says nothing about the new one. And it
        grows to how late this packet was.
        """
        if not self._rtt.srtt:
            return
        scale = -(-(took_ns - self._rtt.minimum) * self._config.reorder_guard_divisor // self._rtt.srtt)
        if now >= self._guard_settles_at:
            self._guard_settles_at = now + self._rtt.srtt
            scale = max(scale, 2 * self._guard_scale)
        most = self._config.reorder_guard_max_rtts * self._config.reorder_guard_divisor
        self._guard_scale = min(max(scale, self._guard_scale), most)

    def on_probe_answered(self, probe: AfterAll) -> None:
        """A tail probe arrived: what was sent a reorder guard in time before it has arrived too, or is lost."""
        self._probed = max(self._probed, probe)

    def holes(self) -> I64:
        """Outstanding transmissions at least one reorder guard older than the latest one acknowledged."""
        sent, probed = self._sent, self._probed
        counted = self.latest_acked - self._config.reorder_guard_packets + 1
        last = max(counted, probed.stop)
        if last - sent.head <= _FEW:
            outstanding, mask = sent.log_outstanding, sent.log_mask
            while sent.head < last and not outstanding[sent.head & mask]:
                sent.head += 1
            if sent.head >= last:
                return _NONE
        stop = sent.head
        if counted > sent.head:
            stop = self._old_enough(AfterAll(counted, int(sent.log_sent_at[self.latest_acked & sent.log_mask])))
        if probed.stop > stop:
            stop = max(stop, self._old_enough(probed))
        numbers, sent.head = np.arange(sent.head, stop), stop
        return sent.only_outstanding(numbers)

    def _old_enough(self, mark: AfterAll) -> int:
        """The end of those transmissions below `mark.stop` that left a reorder guard in time before `mark.at`."""
        sent_at, mask, head = self._sent.log_sent_at, self._sent.log_mask, self._sent.head
        limit = mark.at - self.guard_ns
        if sent_at[head & mask] > limit:
            return head
        # Sending times rise with the transmission number, so "old enough" is a prefix.
        return head + bisect.bisect_right(range(head, mark.stop), limit, key=lambda number: int(sent_at[number & mask]))

    def arm(self, now: int) -> None:
        """Something was sent: its path timer runs, unless an earlier one does."""
        deadline = now + self.path_timer_ns
        if self._timer_at is None or deadline < self._timer_at:
            self._timer_at = deadline

    def next_deadline(self) -> int | None:
        return self._timer_at if self._sent.outstanding else None

    def timed_out(self, now: int) -> I64:
        """Outstanding transmissions whose path timer ran out; the timer doubles with each repeat of a PSN.

        A path timer tells one path from the others. While none of them brings anything it can tell nothing: then it
        waits, probes ask, and the local ACK timeout decides.
        """
        if self._timer_at is None or now < self._timer_at:
            return _NONE
        if self._silent(now):
            self._timer_at = now + self.path_timer_ns
            return _NONE
        sent = self._sent
        numbers = sent.outstanding_until(sent.next_transmission)
        if not len(numbers):
            self._timer_at = None
            return _NONE
        entries = numbers & sent.log_mask
        repeats = np.minimum(sent.times_sent[sent.log_psn[entries] & sent.mask] - 1, _MAX_DOUBLINGS)
        timers = np.minimum(self.path_timer_ns << repeats, self._longest_timer)
        deadlines = np.maximum(sent.log_sent_at[entries], self._resumed_at) + timers
        expired = deadlines <= now
        waiting = deadlines[~expired]
        self._timer_at = int(waiting.min()) if len(waiting) else None
        return np.asarray(numbers[expired])

    def unanswered(self, now: int) -> I64:
        """Outstanding transmissions that the longest path timer has run out for, were the peer silent or not."""
        sent = self._sent
        numbers = sent.outstanding_until(sent.next_transmission)
        since = np.maximum(sent.log_sent_at[numbers & sent.log_mask], self._resumed_at)
        return np.asarray(numbers[since + self._longest_timer <= now])
