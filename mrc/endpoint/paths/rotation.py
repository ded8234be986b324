"""The active EVs and the pseudo-random order in which they take turns (behaviour.md, Paths)."""

from __future__ import annotations

from collections.abc import Callable, Set

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
_DRAWS = 8


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

    def usable_beside(self, full: Set[int]) -> bool:
        """Whether any EV has a turn whose port is not `full`."""
        return any(active and port not in self.closed and port not in full for port, active in self.active.items())

    def changed(self) -> None:
        """`active` or `closed` is another: the next packet begins a new order."""
        self._position = len(self._order)
        self._usable = any(active and port not in self.closed for port, active in self.active.items())

    def leave(self, port: int, index: int, usable: I64) -> None:
        """`index` is active on `port` no longer: one of the `usable` ones that were not takes its place, if any.

        What is left of this order goes on with that one in its turns, or without one with the port's others by chance.
        A whole new order would cost more.
        """
        active = self.active[port]
        if index not in active:
            return
        active.remove(index)
        reserve = [other for other in usable.tolist() if other not in active]
        heir = reserve[int(self._random.integers(len(reserve)))] if reserve else None
        if heir is not None:
            active.append(heir)
        ahead = self._order[self._position :]
        if not active or port in self.closed or not len(ahead):
            self.changed()
            return
        turns = np.flatnonzero(ahead == index)
        if heir is None:
            ahead[turns] = np.array(active)[self._random.integers(len(active), size=len(turns))]
        else:
            ahead[turns] = heir

    def rejoin(self, port: int, index: int, ports: I64) -> bool:
        """`index` is usable again: whether its port had too few active ones, and it is one of them now.

        It gets its share of the port's turns in what is left of this order (`ports` are those of all EVs).
        """
        active = self.active[port]
        if index in active or len(active) >= self.size[port]:
            return False
        active.append(index)
        ahead = self._order[self._position :]
        count = len(active)
        if count == 1 or port in self.closed or not len(ahead):
            self.changed()
            return True
        turns = np.flatnonzero(ports[ahead] == port)
        ahead[turns[int(self._random.integers(count)) :: count]] = index
        return True

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

    def redrawn(self, chosen: I64, state: U8, ports: I64, full: Set[int], avoid: I64 | None) -> I64:
        """The same with other EVs for the packets whose port (`ports` are those of all EVs) is `full`, or that got the
        EV that `avoid` names for them. The first packet that finds no port with room ends them; one that finds no other
        EV takes what there is."""
        shunned = None if avoid is None else avoid[: len(chosen)]
        closed = list(full)
        without_room = np.zeros(len(chosen), np.bool_)
        for _ in range(_DRAWS + 2 * len(ports)):
            if full:
                without_room = np.isin(ports[chosen], closed)
            wrong = without_room if shunned is None else without_room | (chosen == shunned)
            again = np.flatnonzero(wrong)
            if not len(again):
                return chosen
            chosen[again] = self.take(state, len(again))
        if full and (without_room := np.isin(ports[chosen], closed)).any():
            rest = [each for port, active in self.active.items() if port not in self.closed | full for each in active]
            if not rest:
                return chosen[: int(without_room.argmax())]
            chosen[without_room] = self._random.choice(rest, int(without_room.sum()))
        return chosen

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
