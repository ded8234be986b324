"""Which EVs control packets get (behaviour.md, Reverse EVs): known good ones, and successive ones alternate planes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mrc.endpoint.paths.reverse import ReverseEvs

I64 = npt.NDArray[np.int64]

_LENGTH = 64  # an order is so long at least: one choice serves many packets
_NEVER = -1


class ControlEvs:
    """An order of EVs, by index, made anew when it is used up, too old, or what it was made of has changed.

    `columns` gives the EVs that may be taken, an array of indexes for each plane; none at all when nothing may leave.
    """

    __slots__ = (
        "_columns",
        "_end",
        "_losses",
        "_members",
        "_order",
        "_position",
        "_random",
        "_reverse",
        "_turns",
        "_until",
    )

    def __init__(self, reverse: ReverseEvs, random: np.random.Generator, columns: Callable[[], list[I64]]) -> None:
        self._reverse = reverse
        self._random = random
        self._columns = columns
        self._use(np.zeros(0, np.int64))
        # The EVs that `_order` was made of, by plane.
        self._members: list[list[int]] = []
        self._position = 0
        self._until = _NEVER
        self._losses = 0

    def take(self, count: int, now: int) -> I64:
        """Indexes of the EVs for the next `count` packets; empty when there are none."""
        self._renew(count, now)
        chosen: I64 = self._order[self._position : self._position + count]
        self._position += count
        return chosen

    def take_one(self, now: int) -> int:
        """The index of the EV for the next packet; there is one unless nothing may leave."""
        index = self.one_aside(now)
        self._position += 1
        return index

    def one_aside(self, now: int) -> int:
        """The index for a packet that does not count for the alternation of planes."""
        self._renew(1, now)
        return self._turns[self._position]

    def changed(self) -> None:
        """Which EVs may be taken has changed."""
        self._until = _NEVER

    def _renew(self, count: int, now: int) -> None:
        """Choose anew if what was chosen holds no longer or is not enough."""
        enough = self._position + count <= self._end
        if now >= self._until or not enough or self._losses != self._reverse.losses:
            self._choose(count, now)

    def _choose(self, count: int, now: int) -> None:
        columns = self._columns()
        if not columns:
            self._use(np.zeros(0, np.int64))
            return
        # Go on with the plane whose turn it is.
        self._position %= len(columns)
        self._until = now + self._reverse.refresh_ns
        self._losses = self._reverse.losses
        members = [column.tolist() for column in columns]
        if members == self._members and self._position + count <= self._end:
            return
        self._members = members
        rows = max(_LENGTH, count) // len(columns) + 2
        table = np.empty((rows, len(columns)), np.int64)
        for number, column in enumerate(columns):
            table[:, number] = np.resize(self._random.permutation(column), rows)
        self._use(table.reshape(-1))

    def _use(self, order: I64) -> None:
        self._order = order
        self._turns = order.data
        self._end = len(order)
