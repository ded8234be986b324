"""The active EVs and the pseudo-random order in which they take turns (behaviour.md, Paths)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mrc.endpoint.paths.states import EvInput, EvState, next_state
from mrc.endpoint.tracing import QpTrace

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_GOOD, _SKIP = int(EvState.GOOD), int(EvState.SKIP)
_AFTER_SKIP = int(next_state(EvState.SKIP, EvInput.PASSED))
_LENGTH = 512  # an order is several whole passes long, so that one shuffle serves many packets
_NONE = -1


class Rotation:
    """`active` holds the indexes that carry data, by port (one per plane). Ports in `closed` have no turn."""

    __slots__ = (
        "_on_passed",
        "_order",
        "_position",
        "_random",
        "_trace",
        "_two_passes",
        "_usable",
        "active",
        "closed",
        "size",
    )

    def __init__(
        self,
        members: dict[int, I64],
        active_count: int | None,
        random: np.random.Generator,
        trace: QpTrace | None = None,
        on_passed: Callable[[int], None] = lambda index: None,
    ) -> None:
        """`members` are the indexes of each port; an equal number of each, drawn at random, becomes active.

        `on_passed` is called for each EV that leaves SKIP because its turn has passed.
        """
        self._random = random
        self._trace = trace
        self._on_passed = on_passed
        self.size = _shares(members, active_count)
        self.active = {port: random.permutation(mine)[: self.size[port]].tolist() for port, mine in members.items()}
        self.closed: set[int] = set()
        self._order: I64 = np.zeros(0, np.int64)
        self._position = 0
        self._two_passes = 0
        self._usable = True

    def renew(self, members: dict[int, I64], active_count: int | None, state: U8) -> None:
        """Other EVs: of each port's as many usable ones as are to be active, those that are active already first."""
        self.size = _shares(members, active_count)
        active = {}
        for port, mine in members.items():
            usable = self._random.permutation(mine[state[mine] <= _SKIP]).tolist()
            usable.sort(key=lambda index: index not in self.active.get(port, ()))
            active[port] = usable[: self.size[port]]
        self.active = active
        self.closed &= members.keys()
        self.changed()

    @property
    def usable(self) -> bool:
        """Whether any EV has a turn."""
        return self._usable

    def changed(self) -> None:
        """`active` or `closed` is another: the next packet begins a new order."""
        self._position = len(self._order)
        self._usable = any(active and port not in self.closed for port, active in self.active.items())

    def left(self, port: int, index: int, heir: int | None = None) -> None:
        """`index` is no longer active on `port`: what is left of this order goes on with `heir`, an EV that was not
        active, in its turns, or without one with the port's others by chance. A whole new order would cost more."""
        others = self.active[port]
        ahead = self._order[self._position :]
        if not others or port in self.closed or not len(ahead):
            self.changed()
            return
        turns = np.flatnonzero(ahead == index)
        if heir is None:
            ahead[turns] = np.array(others)[self._random.integers(len(others), size=len(turns))]
        else:
            ahead[turns] = heir

    def joined(self, port: int, index: int, ports: I64) -> None:
        """`index` is active on `port` again (`ports` are those of all EVs): it gets its share of the port's turns in
        what is left of this order."""
        ahead = self._order[self._position :]
        count = len(self.active[port])
        if count == 1 or port in self.closed or not len(ahead):
            self.changed()
            return
        turns = np.flatnonzero(ports[ahead] == port)
        ahead[turns[int(self._random.integers(count)) :: count]] = index

    def take(self, state: U8, count: int) -> I64:
        """The EVs of the next `count` packets, none when no EV is usable. EVs that are passed leave SKIP in `state`."""
        chosen = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            if self._position >= len(self._order):
                self._shuffle()
                if not len(self._order):
                    break
            ahead = self._order[self._position : self._position + count - filled]
            if state[ahead].any():  # not all GOOD, which is 0
                chosen[filled:] = self._walk(state, count - filled)
                return chosen
            chosen[filled : filled + len(ahead)] = ahead
            filled += len(ahead)
            self._position += len(ahead)
        return chosen[:filled]

    def take_good(self, state: U8) -> int:
        """The next EV if it is GOOD and this order not at its end, else -1 and nothing is taken."""
        if self._position >= len(self._order):
            return _NONE
        index = int(self._order[self._position])
        if state[index] != _GOOD:
            return _NONE
        self._position += 1
        return index

    def _walk(self, state: U8, count: int) -> list[int]:
        """The same with EVs in SKIP on the way, packet by packet: each packet resets at most one."""
        states, order, position = state.tolist(), self._order.tolist(), self._position
        chosen = []
        for _ in range(count):
            reset = _NONE
            for _ in range(self._two_passes):  # two, since passes begin anywhere: every EV is met once at least
                if position >= len(order):
                    self._shuffle()
                    order, position = self._order.tolist(), 0
                index = order[position]
                position += 1
                if states[index] == _SKIP:
                    if reset == _NONE:
                        state[index] = states[index] = _AFTER_SKIP
                        reset = index
                        if self._trace is not None:
                            self._trace.ev_state(index, EvState.SKIP, EvState(_AFTER_SKIP), EvInput.PASSED)
                        self._on_passed(index)
                elif index != reset:
                    break
            else:
                index = self._other_good(states, reset)
            chosen.append(index)
        self._position = position
        return chosen

    def _other_good(self, states: list[int], reset: int) -> int:
        """A GOOD EV other than the one just reset; that one where a whole rotation has no other."""
        usable = [index for port, active in self.active.items() if port not in self.closed for index in active]
        return next((index for index in usable if states[index] == _GOOD and index != reset), reset)

    def _shuffle(self) -> None:
        """A new order: planes in equal shares, whole passes over the EVs of each."""
        columns = [active for port, active in self.active.items() if active and port not in self.closed]
        self._position = 0
        if not columns:
            self._order = np.zeros(0, np.int64)
            return
        longest = max(len(active) for active in columns)
        one_pass = longest * len(columns)
        self._two_passes = 2 * one_pass
        rows = longest * max(1, _LENGTH // one_pass)
        table = np.empty((rows, len(columns)), np.int64)
        for column, active in enumerate(columns):
            passes = np.tile(np.array(active, np.int64), (-(-rows // len(active)), 1))
            table[:, column] = self._random.permuted(passes, axis=1, out=passes).reshape(-1)[:rows]
        self._order = self._random.permuted(table, axis=1, out=table).reshape(-1)


def _shares(members: dict[int, I64], active_count: int | None) -> dict[int, int]:
    """How many EVs of each port are to be active."""
    share = None if active_count is None else max(1, active_count // len(members))
    return {port: len(mine) if share is None else min(share, len(mine)) for port, mine in members.items()}
