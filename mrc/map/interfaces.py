# SPDX-License-Identifier: BSD-2-Clause
"""Whether the interfaces that a process probes over are still there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

_LOOK_S, _LOOKS = 1.0, 3


class InterfacesGone:
    """Whether all of these interfaces are gone for good: none was there in three looks in a row, a second apart.

    One that is down, or has no carrier, is there. One that was deleted and made again under the old name is another, to
    which no socket of this process is bound: `on_made_again(name)` has them bound again.
    """

    def __init__(self, names: Iterable[str], on_made_again: Callable[[str], None]) -> None:
        """Of the network namespace this is made and called in."""
        self._numbers = {name: _number(name) for name in names}
        self._on_made_again = on_made_again
        self._due = time.monotonic() + _LOOK_S
        self._missed = 0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _LOOK_S
            self._missed = 0 if any([self._is_there(name) for name in self._numbers]) else self._missed + 1
        return self._missed >= _LOOKS

    def _is_there(self, name: str) -> bool:
        number = _number(name)
        if number and number != self._numbers[name]:
            self._on_made_again(name)
            self._numbers[name] = number
        return number != 0


def _number(name: str) -> int:
    """The kernel's number for an interface; 0: there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
