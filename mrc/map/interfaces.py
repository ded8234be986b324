"""Whether the interfaces that a process probes over are still there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

_LOOK_S, _LOOKS = 1.0, 3


class InterfacesGone:
    """Whether all of these interfaces are gone for good: none was there in three looks in a row, a second apart.

    One that is down, or has no carrier, is there. One made anew under the old name is another, to which no socket of
    this process is bound: gone.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Of the network namespace this is made and called in."""
        self._numbers = {name: _number(name) for name in names}
        self._due = time.monotonic() + _LOOK_S
        self._missed = 0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _LOOK_S
            is_there = any(number and _number(name) == number for name, number in self._numbers.items())
            self._missed = 0 if is_there else self._missed + 1
        return self._missed >= _LOOKS


def _number(name: str) -> int:
    """The kernel's number for an interface; 0: there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
