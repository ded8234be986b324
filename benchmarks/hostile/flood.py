# SPDX-License-Identifier: BSD-2-Clause
"""The flood itself: packets in a file, a program in C that sends them at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrc.child import Child
from mrc.errors import PeerError

PROGRAM = Path(__file__).with_name("flood.c")


@dataclass(frozen=True, slots=True)
class Flooded:
    """What the program says when it is over."""

    packets: int
    refused: int
    seconds: float

    @property
    def kpps(self) -> float:
        return self.packets / self.seconds / 1e3 if self.seconds else 0.0


def outcome(flood: Child, timeout_s: float) -> Flooded:
    """What the program says at its end. Raises PeerError when it failed."""
    words = flood.rest(timeout_s).split()
    if len(words) != 3:
        raise PeerError(f"{flood.name} failed: {flood.why()}")
    return Flooded(int(words[0]), int(words[1]), float(words[2]))
