# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Reverse EVs (behaviour.md): which EVs towards one peer node are known to work, and which of them control packets get.

An EV is known good once the peer has answered what was sent on it, and until something sent on it since is lost.
The EVs confirmed last are preferred, a few per plane: one that broke is left as soon as others are confirmed.
Successive packets alternate planes.
"""

from __future__ import annotations

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.parts.numbers import column, longer
from mrc.endpoint.paths.ev_table import EvTable
from mrc.endpoint.paths.states import EvState
from mrc.wire.compiled import const_i64s, i64s, may_raise, python

UNKNOWN = -1  # nothing sent on it was answered yet
LOST = -2  # the last that is known of it is a loss
_LENGTH = 64  # packets that one choice serves at least, while it holds
_NEVER = _NONE = -1
_DENIED = int(EvState.DENIED)
# Which planes may be taken, the better first: those that are up, those that are up at our end, any. When the peer said
# that every plane is down, one that is up here may be back there unannounced.
_UP, _UP_HERE, _ANY = 0, 1, 2


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

    def __init__(self, config: PeerNodeConfig, count: int = 0) -> None:
        self._most = config.reverse_evs_per_plane
        self.refresh_ns = config.reverse_refresh_ns
        self.confirmed_at = self._confirmed = column(count, UNKNOWN)
        self.users = self._users = column(count)
        self.denied = self._denials = column(count)
        self.losses = 0
        # When an acknowledgement of our own data last taught us something.
        self.taught_at: int = UNKNOWN

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
        if self._confirmed[number] != LOST:
            self._confirmed[number] = LOST
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
            if self._confirmed[numbers[place]] == UNKNOWN:
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


class ControlEvs:
    """An order of EVs, by index, made anew when it is used up, too old, or what it was made of has changed."""

    def __init__(self, evs: EvTable, reverse: ReverseEvs, draws: Draws) -> None:
        self._evs = evs
        self._reverse = reverse
        self._draws = draws
        # The EVs chosen of each plane that has any: from _first[n] to _first[n + 1].
        self._planes = 0
        self._position = self._end = 0
        self._until = _NEVER
        self._losses = 0
        self.renew()

    def renew(self) -> may_raise[None]:
        """The profile has other EVs."""
        # They are parts of one column: each memoryview takes half a kilobyte.
        count: int = self._evs.count
        columns: i64s = column(3 * self._evs.count + self._evs.planes + 1)
        # The EVs of one plane that may be taken, and their numbers.
        self._allowed, self._numbers = columns[:count], columns[count : 2 * count]
        self._chosen, self._first = columns[2 * count : 3 * count], columns[3 * count :]
        self.changed()

    def take_one(self, now: int) -> int:
        """The index of the EV for the next packet; -1 when nothing may leave."""
        index = self.one_aside(now)
        self._position += 1
        return index

    def one_aside(self, now: int) -> int:
        """The index for a packet that does not count for the alternation of planes; -1 when nothing may leave."""
        if now >= self._until or self._position >= self._end or self._losses != self._reverse.losses:
            self._choose(now)
            if not self._planes:
                return _NONE
        turn, plane = self._position // self._planes, self._position % self._planes
        first = self._first[plane]
        return self._chosen[first + turn % (self._first[plane + 1] - first)]

    def changed(self) -> None:
        """Which EVs may be taken has changed."""
        self._until = _NEVER

    def _choose(self, now: int) -> None:
        """Choose anew, and go on with the plane whose turn it is."""
        self._until = now + self._reverse.refresh_ns
        self._losses = self._reverse.losses
        if not (self._find(_UP) or self._find(_UP_HERE) or self._find(_ANY)):
            self._position = self._end = 0
            return
        for plane in range(self._planes):
            self._draws.shuffle(self._chosen, self._first[plane], self._first[plane + 1] - self._first[plane])
        self._position %= self._planes
        self._end = self._planes * (_LENGTH // self._planes + 2)

    def _find(self, level: int) -> bool:
        """Choose of such planes: known good EVs where there are any. False when all that may be taken are none."""
        self._planes = 0
        for plane in range(self._evs.planes):
            self._add_plane(plane, level, True)
        if not self._planes:
            # All of them have lost something.
            for plane in range(self._evs.planes):
                self._add_plane(plane, level, False)
        return self._planes > 0

    def _add_plane(self, plane: int, level: int, known_good: bool) -> None:
        """Have a plane that is such, if it has EVs to take."""
        if (level == _UP and self._evs.closed[plane]) or (level == _UP_HERE and self._evs.shut_here[plane]):
            return
        at, count = self._first[self._planes], self._allow(plane)
        if known_good:
            count = self._reverse.pick(self._numbers, count, self._chosen, at)
            for place in range(at, at + count):
                self._chosen[place] = self._allowed[self._chosen[place]]
        else:
            for place in range(count):
                self._chosen[at + place] = self._allowed[place]
        if count:
            self._planes += 1
            self._first[self._planes] = at + count

    def _allow(self, plane: int) -> int:
        """Note the EVs of a plane that are not DENIED. Returns how many."""
        count = 0
        for place in range(self._evs.first[plane], self._evs.first[plane + 1]):
            if self._evs.state[self._evs.members[place]] != _DENIED:
                self._allowed[count] = self._evs.members[place]
                self._numbers[count] = self._evs.number[self._evs.members[place]]
                count += 1
        return count
