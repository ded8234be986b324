# SPDX-License-Identifier: BSD-2-Clause
"""Keys from a terminal, one at a time and without waiting for Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any

_MOST = 256  # bytes taken at once
# What terminals send for keys that are no letters; what begins another comes after it.
_NAMED = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\t": "tab",
    b"\x1b": "escape",
}


class Keys:
    """Within the block the terminal gives keys at once and does not show them; Ctrl-C still interrupts.

    Without a terminal on standard input there are no keys.
    """

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] | None = None
        self._typed = b""

    def __enter__(self) -> Keys:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str | None:
        """The next key within so many seconds: a letter, or up, down, page up, page down, home, end, tab, escape."""
        if self._descriptor is None:
            select.select([], [], [], max(seconds, 0))
            return None
        if not self._typed and select.select([self._descriptor], [], [], max(seconds, 0))[0]:
            self._typed = os.read(self._descriptor, _MOST)
        return self._next()

    def _next(self) -> str | None:
        """The first key of what has been typed."""
        for sequence, name in _NAMED.items():
            if self._typed.startswith(sequence):
                self._typed = self._typed[len(sequence) :]
                return name
        first, self._typed = self._typed[:1], self._typed[1:]
        return first.decode("ascii", "ignore") or None
