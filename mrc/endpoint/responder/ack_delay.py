# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""When a transport ACK may wait: a SACK that goes at once says as much (behaviour.md, Transport ACK)."""

from __future__ import annotations

from mrc.endpoint.parts.deadlines import FOREVER

_FOREVER = FOREVER


class AckDelay:
    """An ACK may be left to a later one for `delay_ns`, counted from the first that was; 0: it never waits."""

    _delay_ns: int
    due_at: int

    __slots__ = tuple(__annotations__)

    def __init__(self, delay_ns: int) -> None:
        self._delay_ns = delay_ns
        # When the ACK that waits has to go, ns; FOREVER while none does.
        self.due_at = _FOREVER

    def may_wait(self, now: int) -> bool:
        """Whether an ACK that is due now can be left to a later one; then one has to go at `due_at`."""
        if not self._delay_ns:
            return False
        if self.due_at == _FOREVER:
            self.due_at = now + self._delay_ns
        return now < self.due_at

    def has_to_go(self, now: int) -> bool:
        return now >= self.due_at

    def end(self) -> None:
        """An ACK went, or none will: nothing waits any more."""
        self.due_at = _FOREVER
