# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How fast a network delivers, measured by acknowledgements: a line rate where nobody configured one."""

from __future__ import annotations

from mrc.endpoint.congestion.windowed_minimum import WindowedMinimum

_BITS = 8
# A longer pause between acknowledgements is the application's, and belongs to no interval.
_LONGEST_INTERVALS = 10
_NEVER = -1


class DeliveryRate:
    """The highest rate of the last `window` units of time, over intervals of at least `interval` each.

    Where an end was kept from its work for a while, all that arrived meanwhile is acknowledged at once, in the interval
    after the one in which it arrived. So an interval counts for no more than it and the one before deliver together.
    The first interval after a pause of the application is left out: there is no interval before it to compare with.

    Times are integers in the unit of the caller's `now`, `ticks_per_second` of them a second. `bps` is bits of nominal
    packet size a second, 0 until the first interval is over. Of that one alone it is a first guess, which the next one
    replaces.
    """

    bps: int
    _interval: int
    _ticks_per_second: int
    _since: int
    _acked: int
    _before: int
    _acked_before: int
    _paused: bool
    _lowest: WindowedMinimum

    __slots__ = tuple(__annotations__)

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
        self._paused = False
        self.bps = 0

    def on_ack(self, now: int, acked_bytes: int) -> bool:
        """So many bytes were newly acknowledged. Returns whether an interval ended, which `bps` takes into account."""
        if self._since == _NEVER or now - self._since > _LONGEST_INTERVALS * self._interval:
            # What is acknowledged first was delivered before the interval.
            self._paused = self._since != _NEVER
            self._since, self._acked, self._before = now, 0, _NEVER
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
        self._paused = False
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
