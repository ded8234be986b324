# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A set of local ports that code without the interpreter looks at for each packet: those that are full, or down."""

from __future__ import annotations

from collections.abc import Iterable

from mrc.endpoint.parts.numbers import column
from mrc.wire.compiled import i64s, python

_ROOM = 16
_NOWHERE = -1


class PortSet:
    """Port numbers, `count` of them."""

    def __init__(self, ports: Iterable[int] = ()) -> None:
        self._numbers: i64s = column(_ROOM)
        self._room = _ROOM
        self.count = 0
        for port in ports:
            self.add(port)

    def __contains__(self, port: int) -> bool:
        return self.holds(port)

    def add(self, port: int) -> python[None]:
        """Safe to call twice."""
        if self.holds(port):
            return
        if self.count == self._room:
            kept, self._room = self._numbers, 2 * self._room
            self._numbers = column(self._room)
            for place in range(self.count):
                self._numbers[place] = kept[place]
        self._numbers[self.count] = port
        self.count += 1

    def discard(self, port: int) -> python[None]:
        """Safe to call twice."""
        place = self._place(port)
        if place != _NOWHERE:
            self.count -= 1
            self._numbers[place] = self._numbers[self.count]

    def holds(self, port: int) -> bool:
        """Whether this port is in it."""
        return self._place(port) != _NOWHERE

    def _place(self, port: int) -> int:
        for place in range(self.count):
            if self._numbers[place] == port:
                return place
        return _NOWHERE
