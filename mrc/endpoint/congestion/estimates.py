# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What acknowledgements tell a sender: round trips, queueing, the rate of the network, and what limits itself."""

from __future__ import annotations

from mrc.errors import CallerError
from mrc.wire.compiled import Subclassed, i64s, python

MOST_TIMEOUTS = 16  # local ACK timeouts that a coarse timer may take
# Of a windowed minimum: its parts, room for the least value of each that counts, and one more.
_PARTS, _ROOM, _SLOTS = 8, 16, 15
DEFAULT_WEIGHT = 1 / 8  # of a sample of the queueing delay
# A longer gap between acknowledgements is the application's pause if nothing was in flight. It belongs to no interval.
_LONGEST_INTERVALS = 10
_BITS = _BYTES = 8
_NEVER = _UNKNOWN = -1


class RttEstimator:
    """Smoothed RTT and its variation as RFC 6298 has them, in integer nanoseconds. `srtt` is 0 until the first sample.

    One step a round trip: the samples of one round trip resemble each other, and a step for every SACK would make the
    variation vanish.
    """

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
        return min(2 * timer, MOST_TIMEOUTS * local_ack_timeout_ns)


class WindowedMinimum:
    """The least value of the last `window` units of time, or of all time with None: a base RTT that may rise again.

    A value is remembered for `window` to 1 1/8 of it: time is cut into parts and each keeps its least value, so that a
    step costs the same however many values there were. Times must not go back. `initial` counts as a value that came
    with the first one.
    """

    def __init__(self, window: int | None, initial: int | None = None) -> None:
        # 0: there is one part.
        self._part_length: int = 0 if window is None else max(window // _PARTS, 1)
        self._has_initial = initial is not None
        self._initial: int = initial or 0
        # Rings of parts of time and the least value in each, from _begin to _end, oldest first. A value that a later
        # one undercuts is left out, so the values rise and the first is the minimum.
        self._parts: i64s = memoryview(bytearray(_ROOM * _BYTES)).cast("q")
        self._values: i64s = memoryview(bytearray(_ROOM * _BYTES)).cast("q")
        self._begin = self._end = 0

    def update(self, now: int, value: int) -> int:
        """Take a value in. Returns the minimum."""
        if self._has_initial:
            value, self._has_initial = min(value, self._initial), False
        part = now // self._part_length if self._part_length else 0
        while self._begin < self._end and self._parts[self._begin & _SLOTS] < part - _PARTS:
            self._begin += 1
        while self._begin < self._end and self._values[(self._end - 1) & _SLOTS] >= value:
            self._end -= 1
        if self._begin == self._end or self._parts[(self._end - 1) & _SLOTS] != part:
            self._parts[self._end & _SLOTS] = part
            self._values[self._end & _SLOTS] = value
            self._end += 1
        return self._values[self._begin & _SLOTS]


class DelayAverage(Subclassed):
    """`value` is the average queueing delay, in the unit of the controller's time (ns). It starts at 0.

    How it is averaged is implementation-defined in NSCC, so this is a part one can replace.
    One is a subclass, in Python or compiled, that has `on_delay`, `on_trimmed` and `without_sample`.
    """

    def __init__(self) -> None:
        self.value = 0

    def on_delay(self, delay: int, *, marked: bool, target: int, base_rtt: int) -> python[None]:
        """An acknowledgement brought a valid sample: rtt - base_rtt. `marked` is its ECN verdict."""
        raise NotImplementedError

    def on_trimmed(self) -> python[None]:
        """A NACK reported a trimmed packet, which has no delay of its own."""
        raise NotImplementedError

    def without_sample(self) -> python[int | None]:
        """The delay an acknowledgement without a valid sample counts with; None: it says nothing about the delay."""
        raise NotImplementedError


class EwmaDelay(DelayAverage):
    """An exponentially weighted moving average of the samples and of nothing else, truncated to whole units.

    `weight` is what a sample counts, above 0 and at most 1. An eighth forgets within eight acknowledgements. Raises
    CallerError.
    """

    def __init__(self, weight: float = DEFAULT_WEIGHT) -> None:
        super().__init__()
        if not 0 < weight <= 1:
            raise CallerError(f"the weight of a delay sample must be above 0 and at most 1, got {weight}")
        self._weight = weight

    def on_delay(self, delay: int, *, marked: bool, target: int, base_rtt: int) -> python[None]:
        self.update(delay)

    def update(self, delay: int) -> None:
        """A valid sample, of which nothing else counts."""
        self.value = int(self._weight * delay + (1 - self._weight) * self.value)

    def on_trimmed(self) -> python[None]:
        """A packet that was cut short measured nothing."""

    def without_sample(self) -> python[int | None]:
        return None


class DeliveryRate:
    """The highest rate of the last `window` units of time, over intervals of at least `interval` each: a line rate
    where nobody configured one.

    Where an end was kept from its work for a while, all that arrived meanwhile is acknowledged at once, in the interval
    after the one in which it arrived. So an interval counts for no more than it and the one before deliver together.
    The first interval after a pause of the application is left out: there is no interval before it to compare with. A
    long gap is a pause only if nothing was in flight: a busy machine acknowledges as rarely.

    Times are integers in the unit of the caller's `now`, `ticks_per_second` of them a second. `bps` is bits of nominal
    packet size a second, 0 until the first interval is over. Of that one alone it is a first guess, which the next one
    replaces.
    """

    def __init__(self, interval: int, window: int, ticks_per_second: int) -> None:
        self._interval = interval
        self._ticks_per_second = ticks_per_second
        # The highest rate is the lowest negative one.
        self._lowest = WindowedMinimum(window)
        self._since = _NEVER
        self._acked = 0
        # When the interval before this one began, and what was acknowledged in it.
        self._before = _NEVER
        self._acked_before = 0
        self._paused = self._ran_empty = False
        self.bps = 0

    def on_empty(self) -> None:
        """Note that nothing is in flight."""
        self._ran_empty = True

    def on_ack(self, now: int, acked_bytes: int) -> bool:
        """So many bytes were newly acknowledged. Returns whether an interval ended, which `bps` takes into account."""
        too_long = self._ran_empty and now - self._since > _LONGEST_INTERVALS * self._interval
        if self._since == _NEVER or too_long:
            # What is acknowledged first was delivered before the interval.
            self._paused = self._since != _NEVER
            self._since, self._acked, self._before, self._ran_empty = now, 0, _NEVER, False
            return False
        self._acked += acked_bytes
        if now - self._since < self._interval:
            return False
        rate = self._rate(self._acked, now - self._since)
        if self._before != _NEVER:
            rate = min(rate, self._rate(self._acked_before + self._acked, now - self._before))
            self.bps = -self._lowest.update(now, -rate)
        elif not self._paused:
            self.bps = rate
        told = not self._paused
        self._paused = self._ran_empty = False
        if told:
            self._before, self._acked_before = self._since, self._acked
        self._since, self._acked = now, 0
        return told

    def _rate(self, acked: int, elapsed: int) -> int:
        return _scaled(acked * _BITS, self._ticks_per_second, elapsed)


def _scaled(value: int, by: int, over: int) -> int:
    """value * by // over, of which the product may take more than 64 bits: bit by bit of `by`, from the highest on."""
    whole, rest, bit = value // over * by, 0, 1
    part, value = 0, value % over
    while bit <= by >> 1:
        bit <<= 1
    while bit:
        rest <<= 1
        part <<= 1
        if by & bit:
            rest += value
        part += rest // over
        rest %= over
        bit >>= 1
    return whole + part


class WindowLimit:
    """Whether the window is what limits a sender, or the sender itself: too little to send, too slow, no path.

    Looks at each turn of the sender: after it could send, was the window full when the next answer came?
    A turn is all answers of one `now`: between two turns the sender could fill the window, within one it could not.
    An interval, begun with `begin_interval`, is limited when each of its turns is and the network never ran empty.
    """

    def __init__(self) -> None:
        # 0 or 1; _UNKNOWN before anything was taken off.
        self._full_before = _UNKNOWN
        self._turn = _UNKNOWN
        self.turn_limited = False
        self.interval_limited = False

    def on_sending(self, inflight: int) -> None:
        """A transmission is about to be added to `inflight` bytes."""
        if not inflight:
            self.interval_limited = False

    def on_removing(self, inflight: int, cwnd: int) -> None:
        """A transmission is about to be taken off `inflight` bytes."""
        self._full_before = int(inflight >= cwnd)

    def on_answer(self, now: int, inflight: int, cwnd: int) -> None:
        """An acknowledgement or a NACK came; what it removed has been taken off."""
        if now != self._turn:
            self._turn = now
            self.turn_limited = inflight >= cwnd if self._full_before == _UNKNOWN else self._full_before != 0
            self.interval_limited = self.interval_limited and self.turn_limited
        self._full_before = _UNKNOWN

    def on_timer_removed(self) -> None:
        """What was taken off last was no answer from the network and says nothing."""
        self._full_before = _UNKNOWN

    def begin_interval(self) -> None:
        self.interval_limited = self.turn_limited
