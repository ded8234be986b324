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
_NOWHERE: Set[int] = frozenset()


class Rotation:
    """`active` holds the indexes that carry data, by port (one per plane). Ports in `closed` have no turn."""

    __slots__ = (
        "_end",
        "_on_passed",
        "_order",
        "_position",
        "_random",
        "_trace",
        "_turns",
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
        self._usable = True
        self._two_passes = 0
        # The order, how far it has been used, and its length.
        self._order: I64 = np.zeros(0, np.int64)
        self._turns = self._order.data
        self._position = self._end = 0

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
        self._position = self._end
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

    def take(self, state: memoryview) -> int:
        """The EV of the next packet, -1 when no EV is usable.

        The first EV in SKIP on the way leaves that state in `state`, but has no turn yet; all others stay in it.
        """
        reset = _NONE
        if self._position >= self._end and not self._shuffle():
            return _NONE
        for _ in range(self._two_passes):  # two, since passes begin anywhere: every EV is met once at least
            if self._position >= self._end:
                self._shuffle()
            index = self._turns[self._position]
            self._position += 1
            if state[index] == _SKIP:
                if reset == _NONE:
                    self._pass(state, index)
                    reset = index
            elif index != reset:
                return index
        return self._other_good(state, reset)

    def _pass(self, state: memoryview, index: int) -> None:
        """The turn of an EV in SKIP has passed."""
        state[index] = _AFTER_SKIP
        if self._trace is not None:
            self._trace.ev_state(index, EvState.SKIP, EvState(_AFTER_SKIP), EvInput.PASSED)
        self._on_passed(index)

    def take_other(self, state: memoryview, ports: memoryview, full: Set[int], avoid: int) -> int:
        """`take`, but an EV whose port (`ports` are those of all EVs) is not `full`, and another than `avoid`: -1 where
        no port has room; `avoid` where there is no other."""
        index = _NONE
        for _ in range(_DRAWS + 2 * len(ports)):
            index = self.take(state)
            if index == _NONE or (index != avoid and ports[index] not in full):
                return index
        with_room = self._open(full)
        others = [each for each in with_room if each != avoid] or with_room
        return int(self._random.choice(others)) if others else _NONE

    def _open(self, full: Set[int]) -> list[int]:
        """The EVs that have turns, but for those of ports that are `full`."""
        return [each for port, active in self.active.items() if port not in self.closed | full for each in active]

    def _other_good(self, state: memoryview, reset: int) -> int:
        """A GOOD EV other than the one just reset; that one where a whole rotation has no other."""
        for index in self._open(_NOWHERE):
            if state[index] == _GOOD and index != reset:
                return index
        return reset

    def _shuffle(self) -> bool:
        """Begin a new order. False when it has no turns."""
        columns = [active for port, active in self.active.items() if active and port not in self.closed]
        self._two_passes = 2 * len(columns) * max(map(len, columns), default=0)
        self._begin(self._drawn(columns) if columns else np.zeros(0, np.int64))
        return self._end > 0

    def _begin(self, order: I64) -> None:
        self._order = order
        self._turns = order.data
        self._position = 0
        self._end = len(order)

    def _drawn(self, columns: list[list[int]]) -> I64:
        """An order of the EVs of each plane: planes in equal shares, whole passes over the EVs of each."""
        longest = max(len(active) for active in columns)
        rows = longest * max(1, _LENGTH // (longest * len(columns)))
        table = np.empty((rows, len(columns)), np.int64)
        for column, active in enumerate(columns):
            passes = np.tile(np.array(active, np.int64), (-(-rows // len(active)), 1))
            table[:, column] = self._random.permuted(passes, axis=1, out=passes).reshape(-1)[:rows]
        order: I64 = self._random.permuted(table, axis=1, out=table).reshape(-1)
        return order


def _shares(members: dict[int, I64], active_count: int | None) -> dict[int, int]:
    """How many EVs of each port are to be active."""
    share = None if active_count is None else max(1, active_count // len(members))
    return {port: len(mine) if share is None else min(share, len(mine)) for port, mine in members.items()}
