# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The active EVs and the pseudo-random order in which they take turns (behaviour.md, Paths)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.ev_table import EvTable
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.states import CARRIES_DATA, EvInput, EvState, next_state
from mrc.endpoint.tracing import QpTrace
from mrc.wire.compiled import const_u8s, i64s, may_raise, python, readonly, u8s, with_gil

_SKIP = int(EvState.SKIP)
_CARRIES_DATA: const_u8s = memoryview(CARRIES_DATA)
_AFTER_SKIP = int(next_state(EvState.SKIP, EvInput.PASSED))
_NONE = -1
_DRAWS = 8


class Rotation:
    """The planes that are open take turns in rounds, each round in another order; so do the active EVs of a plane.

    Of plane p the active EVs are `count[p]`, at most `size[p]`, in `active` from the plane's first place on. The first
    `_taken[p]` of them had their turn in this pass; those behind have it in the order in which they stand.
    """

    _widest: int

    def __init__(
        self,
        evs: EvTable,
        active_count: int | None,
        draws: Draws,
        trace: QpTrace | None,
        wanted: memoryview,
        on_passed: Callable[[int], None],
        least_skip: int = 0,
    ) -> None:
        """An equal number of each plane's EVs, drawn at random, becomes active: `active_count` in all, or every EV.

        `on_passed` is called for each EV that leaves SKIP because its turn has passed, where `wanted` (by state) says
        that somebody wants to hear of SKIP. `least_skip` (ns): how long an EV stays in SKIP at least, from when its
        turn first passes; `now` is kept by the owner.
        """
        self._least_skip = least_skip
        self.now = 0
        self._evs = evs
        self._draws = draws
        self._trace: readonly[QpTrace | None] = trace
        self._wanted: u8s = wanted
        self._on_passed = on_passed
        self._is_active: u8s = memoryview(bytearray(evs.count))
        self.renew(active_count)

    def renew(self, active_count: int | None) -> python[None]:
        """Other EVs: of each plane's as many usable ones as are to be active, those that are active already first."""
        planes = self._evs.planes
        self._divide(planes, self._evs.count)
        before = bytes(self._is_active) + bytes(self._evs.count - len(self._is_active))
        self._is_active = memoryview(bytearray(self._evs.count))
        share = self._evs.count if active_count is None else max(1, active_count // planes)
        for plane in range(planes):
            members = self._evs.members_of(plane)
            self.size[plane] = min(share, len(members))
            drawn = self._drawn([index for index in members if _CARRIES_DATA[self._evs.state[index]]])
            drawn = [index for index in drawn if before[index]] + [index for index in drawn if not before[index]]
            self.use(plane, drawn[: self.size[plane]])
        self._widest = max(self.size[plane] for plane in range(planes))
        self.changed()

    def _divide(self, planes: int, evs: int) -> may_raise[None]:
        """Make the columns, parts of one: each memoryview takes half a kilobyte."""
        columns: i64s = column(4 * planes + evs)
        self.count, self.size = columns[:planes], columns[planes : 2 * planes]
        self._taken, self._open = columns[2 * planes : 3 * planes], columns[3 * planes : 4 * planes]
        self.active = columns[4 * planes :]

    def _drawn(self, indexes: Sequence[int]) -> python[list[int]]:
        """These indexes in a random order."""
        order = column(len(indexes))
        for place, index in enumerate(indexes):
            order[place] = index
        self._draws.shuffle(order, 0, len(indexes))
        return [order[place] for place in range(len(indexes))]

    def use(self, plane: int, indexes: Sequence[int]) -> python[None]:
        """These EVs are the active ones of a plane. `changed` follows."""
        for index in self.active_of(plane):
            self._is_active[index] = 0
        for place, index in enumerate(indexes, self._evs.first[plane]):
            self.active[place] = index
            self._is_active[index] = 1
        self.count[plane] = self._taken[plane] = len(indexes)

    def active_of(self, plane: int) -> python[list[int]]:
        """The active EVs of a plane."""
        first = self._evs.first[plane]
        return [self.active[place] for place in range(first, first + self.count[plane])]

    def changed(self) -> None:
        """Which planes are open is to be looked at anew: a new round begins."""
        self._open_count = 0
        for plane in range(self._evs.planes):
            if self.count[plane] and not self._evs.closed[plane]:
                self._open[self._open_count] = plane
                self._open_count += 1
        self._round = self._open_count

    # ------------------------------------------------------------------ leaving and coming back

    def leave(self, plane: int, index: int) -> None:
        """An EV can no longer be used: a usable one of its plane that was not active takes its place and its turns.

        Where there is none the plane's others carry its share.
        """
        if not self._is_active[index]:
            return
        heir = self._heir(plane)
        if heir == _NONE:
            self.remove(plane, index)
            return
        self._is_active[index] = 0
        self._is_active[heir] = 1
        self.active[self._place(plane, index)] = heir

    def _heir(self, plane: int) -> int:
        """One of a plane's usable EVs that are not active, drawn at random; -1 where there is none."""
        count, heir = 0, _NONE
        for place in range(self._evs.first[plane], self._evs.first[plane + 1]):
            index = self._evs.members[place]
            if _CARRIES_DATA[self._evs.state[index]] and not self._is_active[index]:
                count += 1
                if self._draws.below(count) == 0:
                    heir = index
        return heir

    def _place(self, plane: int, index: int) -> int:
        """Where an active EV stands."""
        place = self._evs.first[plane]
        while self.active[place] != index:
            place += 1
        return place

    def remove(self, plane: int, index: int) -> None:
        """An active EV is so no longer."""
        place, first = self._place(plane, index), self._evs.first[plane]
        if place < first + self._taken[plane]:
            # Keep those that had their turn together.
            self._taken[plane] -= 1
            self.active[place] = self.active[first + self._taken[plane]]
            place = first + self._taken[plane]
        self.count[plane] -= 1
        self.active[place] = self.active[first + self.count[plane]]
        self._is_active[index] = 0
        if not self.count[plane]:
            self.changed()

    def rejoin(self, plane: int, index: int) -> bool:
        """An EV is usable again: whether its plane had too few active ones, and it is one of them now.

        It has its turn in this pass or, where it might as well have had it already, in the next.
        """
        if self._is_active[index] or self.count[plane] >= self.size[plane]:
            return False
        first = self._evs.first[plane]
        ahead, last = first + self._taken[plane], first + self.count[plane]
        place = first + self._draws.below(self.count[plane] + 1)
        if place < ahead:
            # The first of those ahead makes room.
            self.active[last] = self.active[ahead]
            self.active[ahead] = self.active[place]
            self._taken[plane] += 1
        else:
            self.active[last] = self.active[place]
        self.active[place] = index
        self._is_active[index] = 1
        self.count[plane] += 1
        if self.count[plane] == 1:
            self.changed()
        return True

    # ------------------------------------------------------------------ turns

    def usable(self) -> bool:
        """Whether any EV has turns."""
        return self._open_count > 0

    def usable_beside(self, full: PortSet) -> bool:
        """Whether any EV has turns whose port is not full."""
        with_room = 0
        for place in range(self._open_count):
            with_room += not full.holds(self._evs.port_of_plane[self._open[place]])
        return with_room > 0

    def next(self) -> int:
        """The EV of the next packet, -1 when no EV is usable.

        The first EV in SKIP on the way, once it has been there long enough, leaves that state, but has no turn yet; all
        others stay in it. Where all are in SKIP one of them leaves it in any case.
        """
        reset = skipped = _NONE
        # Two passes, since they begin anywhere: every EV is met once at least.
        for _ in range(2 * self._widest * self._open_count):
            index = self._next()
            if self._evs.state[index] == _SKIP:
                skipped = index
                if reset == _NONE and self._skipped_enough(index):
                    self._pass(index)
                    reset = index
            elif index != reset:
                return index
        if reset == _NONE and skipped != _NONE:
            self._pass(skipped)
            reset = skipped
        return self._other_than(reset)

    def _skipped_enough(self, index: int) -> bool:
        """Whether the least time in SKIP is over for an EV whose turn passes; it begins with the first turn."""
        if not self._least_skip:
            return True
        if self._evs.skip_until[index] == _NONE:
            self._evs.skip_until[index] = self.now + self._least_skip
            return False
        return self.now >= self._evs.skip_until[index]

    def _next(self) -> int:
        """The EV whose turn it is; there is one."""
        if self._round >= self._open_count:
            self._draws.shuffle(self._open, 0, self._open_count)
            self._round = 0
        plane = self._open[self._round]
        self._round += 1
        if self._taken[plane] >= self.count[plane]:
            self._shuffle(plane)
        index = self.active[self._evs.first[plane] + self._taken[plane]]
        self._taken[plane] += 1
        return index

    def _shuffle(self, plane: int) -> None:
        """A new pass over a plane's active EVs begins, in another order."""
        self._draws.shuffle(self.active, self._evs.first[plane], self.count[plane])
        self._taken[plane] = 0

    def _pass(self, index: int) -> None:
        """The turn of an EV in SKIP has passed."""
        self._evs.skip_until[index] = _NONE
        self._evs.state[index] = _AFTER_SKIP
        if self._trace is not None or self._wanted[_SKIP]:
            self._report_passed(index)

    def _report_passed(self, index: int) -> with_gil[None]:
        """Let the trace and the owner know."""
        if self._trace is not None:
            self._trace.ev_state(index, EvState.SKIP, EvState(_AFTER_SKIP), EvInput.PASSED)
        if self._wanted[_SKIP]:
            self._on_passed(index)

    def take_other(self, full: PortSet, avoid: int) -> int:
        """`next`, but an EV whose port is not `full`, and another than `avoid`: -1 where no port has room; `avoid`
        where there is no other."""
        for _ in range(_DRAWS + 2 * self._evs.count):
            index = self.next()
            if index == _NONE or (index != avoid and not full.holds(self._evs.port[index])):
                return index
        other = self._any_beside(full, avoid)
        return self._any_beside(full, _NONE) if other == _NONE else other

    def _any_beside(self, full: PortSet, avoid: int) -> int:
        """One of the EVs that have turns, drawn at random, whose port is not full and that is another than `avoid`; or
        -1."""
        count, chosen = 0, _NONE
        for place in range(self._open_count):
            plane = self._open[place]
            if full.holds(self._evs.port_of_plane[plane]):
                continue
            for at in range(self._evs.first[plane], self._evs.first[plane] + self.count[plane]):
                if self.active[at] != avoid:
                    count += 1
                    if self._draws.below(count) == 0:
                        chosen = self.active[at]
        return chosen

    def _other_than(self, reset: int) -> int:
        """An EV that has turns and is not in SKIP, other than the one just reset; that one where there is no other."""
        for place in range(self._open_count):
            first = self._evs.first[self._open[place]]
            for at in range(first, first + self.count[self._open[place]]):
                if self._evs.state[self.active[at]] != _SKIP and self.active[at] != reset:
                    return self.active[at]
        return reset
