# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Reverse EVs: which EVs towards one peer node are known to work, so that control packets can take them.

An EV is known good once the peer has answered what was sent on it, and until something sent on it since is lost.
The EVs confirmed last are preferred, a few per plane: one that broke is left as soon as others are confirmed.
"""

from __future__ import annotations

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.parts.numbers import column, longer
from mrc.wire.compiled import const_i64s, i64s, python

UNKNOWN = -1  # nothing sent on it was answered yet
LOST = -2  # the last that is known of it is a loss
_UNKNOWN, _LOST = UNKNOWN, LOST


class ReverseEvs:
    """`confirmed_at` by EV number within a peer node: when it last proved good (ns), UNKNOWN or LOST.

    `losses` counts the EVs that ceased to be known good. A caller that keeps a choice chooses anew when it moves.
    `users` counts the profiles of QPs that have an EV, `denied` those of them in which it is DENIED.
    """

    confirmed_at: memoryview
    users: memoryview
    denied: memoryview
    _confirmed: i64s
    _denials: i64s
    _users: i64s
    losses: int
    refresh_ns: int
    taught_at: int
    _most: int

    __slots__ = tuple(__annotations__)

    def __init__(self, config: PeerNodeConfig, count: int = 0) -> None:
        self._most = config.reverse_evs_per_plane
        self.refresh_ns = config.reverse_refresh_ns
        self.confirmed_at = self._confirmed = column(count, UNKNOWN)
        self.users = self._users = column(count)
        self.denied = self._denials = column(count)
        self.losses = 0
        # When an acknowledgement of our own data last taught us something.
        self.taught_at = UNKNOWN

    def grow(self, count: int) -> python[None]:
        """Make room for `count` more EVs, of which nothing is known."""
        known = len(self.users)
        self.confirmed_at = self._confirmed = longer(self.confirmed_at, known + count)
        for number in range(known, known + count):
            self._confirmed[number] = UNKNOWN
        self.users = self._users = longer(self.users, known + count)
        self.denied = self._denials = longer(self.denied, known + count)

    def deny(self, number: int, more: int) -> None:
        """In so many more profiles this EV is DENIED."""
        self._denials[number] += more

    def may_carry(self, number: int) -> bool:
        """Whether this EV may carry what belongs to no QP: some QP uses it and none has it DENIED."""
        return self._users[number] > 0 and self._denials[number] == 0

    def confirm(self, number: int, now: int) -> python[None]:
        """What was sent on this EV was answered."""
        self._confirmed[number] = now

    def confirm_by_data(self, number: int, now: int) -> None:
        """Data sent on this EV was acknowledged."""
        self._confirmed[number] = now
        self.taught_at = now

    def lose(self, number: int) -> None:
        """Something sent on this EV was lost."""
        if self._confirmed[number] != _LOST:
            self._confirmed[number] = _LOST
            self.losses += 1

    def pick(self, numbers: const_i64s, count: int, chosen: i64s, at: int) -> int:
        """Choose among the first `count` of `numbers` (EVs of one plane): a few known good, those confirmed last first.

        Where none is known good, those that nothing is known of; none when all of them have lost something. Their
        places in `numbers` go to `chosen` from `at` on. Returns how many.
        """
        kept = 0
        for place in range(count):
            if self._confirmed[numbers[place]] >= 0:
                kept = self._insert(numbers, place, chosen, at, kept)
        if kept:
            return kept
        for place in range(count):
            if self._confirmed[numbers[place]] == _UNKNOWN:
                chosen[at + kept] = place
                kept += 1
        return kept

    def _insert(self, numbers: const_i64s, place: int, chosen: i64s, at: int, kept: int) -> int:
        """Put a known good EV behind the `kept` ones that were confirmed as late; too many push out the last."""
        if kept == self._most:
            if self._confirmed[numbers[chosen[at + kept - 1]]] >= self._confirmed[numbers[place]]:
                return kept
            kept -= 1
        into = at + kept
        while into > at and self._confirmed[numbers[chosen[into - 1]]] < self._confirmed[numbers[place]]:
            chosen[into] = chosen[into - 1]
            into -= 1
        chosen[into] = place
        return kept + 1
