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
_LOST = LOST


class ReverseEvs:
    """`confirmed_at` by EV number within a peer node: when it last proved good (ns), UNKNOWN or LOST.

    `losses` counts the EVs that ceased to be known good; whoever keeps a choice makes it anew when it moves.
    `users` counts the profiles of QPs that have an EV, `denied` those of them in which it is DENIED.
    """

    __slots__ = ("_confirmed", "_most", "confirmed_at", "denied", "losses", "refresh_ns", "taught_at", "users")

    def __init__(self, config: PeerNodeConfig, count: int = 0) -> None:
        self._most = config.reverse_evs_per_plane
        self.refresh_ns = config.reverse_refresh_ns
        self.confirmed_at: I64 = np.full(count, UNKNOWN, np.int64)
        self._confirmed = self.confirmed_at.data
        self.users: I64 = np.zeros(count, np.int64)
        self.denied: I64 = np.zeros(count, np.int64)
        self.losses = 0
        # When an acknowledgement of our own data last taught us something.
        self.taught_at = UNKNOWN

    def grow(self, count: int) -> None:
        """Make room for `count` more EVs, of which nothing is known."""
        self.confirmed_at = np.concatenate((self.confirmed_at, np.full(count, UNKNOWN, np.int64)))
        self._confirmed = self.confirmed_at.data
        self.users = np.concatenate((self.users, np.zeros(count, np.int64)))
        self.denied = np.concatenate((self.denied, np.zeros(count, np.int64)))

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
        """Positions in `numbers` (the EVs of one plane) to use: a few known good, confirmed last.

        Where none is known good, those that nothing is known of; none when all of them have lost something.
        """
        times = self.confirmed_at[numbers]
        good, most = np.flatnonzero(times >= 0), self._most
        if len(good) > most:
            good = good[np.argpartition(times[good], len(good) - most)[len(good) - most :]]
        return good if len(good) else np.flatnonzero(times == UNKNOWN)
