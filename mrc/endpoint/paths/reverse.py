"""Reverse EVs: which EVs towards one peer node are known to work, so that control packets can take them.

An EV is known good once the peer has answered what was sent on it, and until something sent on it since is lost.
The EVs confirmed last are preferred, a few per plane: one that broke is left as soon as others are confirmed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import PeerNodeConfig

I64 = npt.NDArray[np.int64]

UNKNOWN = -1  # nothing sent on it was answered yet
LOST = -2  # the last that is known of it is a loss
_UNKNOWN, _LOST = UNKNOWN, LOST


class ReverseEvs:
    """`confirmed_at` by EV number within a peer node: when it last proved good (ns), UNKNOWN or LOST.

    `losses` counts the EVs that ceased to be known good; whoever keeps a choice makes it anew when it moves.
    `users` counts the profiles of QPs that have an EV, `denied` those of them in which it is DENIED.
    """

    __slots__ = (
        "_confirmed",
        "_denials",
        "_most",
        "confirmed_at",
        "denied",
        "losses",
        "refresh_ns",
        "taught_at",
        "users",
    )

    def __init__(self, config: PeerNodeConfig, count: int = 0) -> None:
        self._most = config.reverse_evs_per_plane
        self.refresh_ns = config.reverse_refresh_ns
        self.confirmed_at: I64 = np.full(count, UNKNOWN, np.int64)
        self.users: I64 = np.zeros(count, np.int64)
        self.denied: I64 = np.zeros(count, np.int64)
        self._look()
        self.losses = 0
        # When an acknowledgement of our own data last taught us something.
        self.taught_at = UNKNOWN

    def _look(self) -> None:
        """The arrays are others: have views of them."""
        self._confirmed, self._denials = self.confirmed_at.data, self.denied.data

    def grow(self, count: int) -> None:
        """Make room for `count` more EVs, of which nothing is known."""
        self.confirmed_at = np.concatenate((self.confirmed_at, np.full(count, UNKNOWN, np.int64)))
        self.users = np.concatenate((self.users, np.zeros(count, np.int64)))
        self.denied = np.concatenate((self.denied, np.zeros(count, np.int64)))
        self._look()

    def deny(self, number: int, more: int) -> None:
        """In so many more profiles this EV is DENIED."""
        self._denials[number] += more

    def may_carry(self, numbers: I64) -> I64:
        """Those of these EVs that may carry what belongs to no QP: some QP uses them and none has them DENIED."""
        carrying: I64 = numbers[(self.users[numbers] > 0) & (self.denied[numbers] == 0)]
        return carrying

    def confirm(self, numbers: I64 | int, now: int) -> None:
        """What was sent on these EVs (repeats allowed) was answered."""
        self.confirmed_at[numbers] = now

    def confirm_by_data(self, number: int, now: int) -> None:
        """Data sent on this EV was acknowledged."""
        self._confirmed[number] = now
        self.taught_at = now

    def lose(self, number: int) -> None:
        """Something sent on this EV was lost."""
        if self._confirmed[number] != _LOST:
            self._confirmed[number] = _LOST
            self.losses += 1

    def choose(self, numbers: I64) -> I64:
        """Positions in `numbers` (the EVs of one plane) to use: a few known good, those confirmed last first.

        Where none is known good, those that nothing is known of; none when all of them have lost something.
        """
        chosen: I64 = np.zeros(len(numbers), np.int64)
        count = self.pick(np.ascontiguousarray(numbers).data, len(numbers), chosen.data, 0)
        return chosen[:count]

    def pick(self, numbers: memoryview, count: int, chosen: memoryview, at: int) -> int:
        """`choose` from the first `count` of `numbers`: write positions to `chosen` from `at` on. Returns how many."""
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

    def _insert(self, numbers: memoryview, place: int, chosen: memoryview, at: int, kept: int) -> int:
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
