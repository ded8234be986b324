# SPDX-License-Identifier: BSD-2-Clause
"""Unpredictable R_Keys (docs/security.md)."""

from __future__ import annotations

import os
from array import array

_BYTES = 4
# Reading the system's random source gives up the interpreter, and a computing thread then keeps it for 5 ms.
_AT_ONCE = 1024


class RKeys:
    """32-bit numbers of the system's random source. Each call returns a new one; any thread may call."""

    __slots__ = ("_drawn",)

    def __init__(self) -> None:
        # No list: its thousand integers would last as long as the node, and keep memory around them.
        self._drawn = array("I")

    def __call__(self) -> int:
        while True:
            try:
                return self._drawn.pop()
            except IndexError:  # none yet, or another thread took the last
                drawn = os.urandom(_BYTES * _AT_ONCE)
                self._drawn.frombytes(drawn)
