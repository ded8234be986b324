# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Whether the window is what limits a sender, or the sender itself: too little to send, too slow, no path."""

from __future__ import annotations

_UNKNOWN = -1


class WindowLimit:
    """Looks at each turn of the sender: after it could send, was the window full when the next answer came?

    A turn is all answers of one `now`: between two turns the sender could fill the window, within one it could not.
    An interval, begun with `begin_interval`, is limited when each of its turns is and the network never ran empty.
    """

    _full_before: int
    _turn: int
    turn_limited: bool
    interval_limited: bool

    __slots__ = tuple(__annotations__)

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
