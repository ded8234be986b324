# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Round-trip time, estimated as RFC 6298 does, in integer nanoseconds.

One step a round trip: the samples of one round trip resemble each other, and a step for every SACK would make the
variation vanish.
"""

from __future__ import annotations

MOST_TIMEOUTS = 16  # local ACK timeouts that a coarse timer may take
_MOST_TIMEOUTS = MOST_TIMEOUTS


class RttEstimator:
    """Smoothed RTT and its variation. `srtt` is 0 until the first sample."""

    srtt: int
    rttvar: int
    minimum: int
    _next_step_at: int

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.srtt = 0
        self.rttvar = 0
        self.minimum = 0
        self._next_step_at = 0

    def sample(self, rtt_ns: int, now: int) -> None:
        """Take a valid sample. One of 0 or less (two events at one instant) counts as 1 ns."""
        if rtt_ns < 1:
            rtt_ns = 1
        if not self.srtt:
            self.srtt = self.minimum = rtt_ns
            self.rttvar = rtt_ns >> 1
            self._next_step_at = now + rtt_ns
            return
        if rtt_ns < self.minimum:
            self.minimum = rtt_ns
        if now < self._next_step_at:
            return
        # Shifts round down, whatever the sign.
        self.rttvar += (max(self.srtt - rtt_ns, rtt_ns - self.srtt) - self.rttvar) >> 2
        self.srtt += (rtt_ns - self.srtt) >> 3
        self._next_step_at = now + self.srtt

    def late(self, took_ns: int, now: int) -> None:
        """An original arrived `took_ns` after it was sent, when it had been sent again already: timers were too short.

        It counts at once, whatever was counted a moment ago.
        """
        self._next_step_at = now
        self.sample(took_ns, now)

    def path_timer(self) -> int:
        """srtt + 4 rttvar, before any bounds."""
        return self.srtt + 4 * self.rttvar

    def coarse_timer(self, local_ack_timeout_ns: int) -> int:
        """The local ACK timeout, or twice srtt + 4 rttvar where those are longer than it (C; alternative: the timeout).

        A shorter one would run out on a peer that waits for a processor. The tail probe asks first.
        """
        timer = self.path_timer()
        if timer <= local_ack_timeout_ns:
            return local_ack_timeout_ns
        # Bounded: a peer that was stopped once for seconds must not make losses wait for as long.
        return min(2 * timer, _MOST_TIMEOUTS * local_ack_timeout_ns)
