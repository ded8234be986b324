"""R_Keys that nobody can guess (docs/security.md)."""

from __future__ import annotations

import os

_BYTES = 4
# To ask the system is to give up the interpreter, and who computes keeps that for 5 ms: it is asked rarely.
_AT_ONCE = 1024


class RKeys:
    """32-bit numbers of the system's random source: each call gives the next."""

    __slots__ = ("_drawn",)

    def __init__(self) -> None:
        self._drawn: list[int] = []

    def __call__(self) -> int:
        while True:
            try:
                return self._drawn.pop()
            except IndexError:  # none yet, or another thread took the last
                drawn = os.urandom(_BYTES * _AT_ONCE)
                self._drawn += memoryview(drawn).cast("I").tolist()
