# SPDX-License-Identifier: BSD-2-Clause
"""The flood itself: packets in a file, a program in C that sends them at a steady rate."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from mrc.errors import PeerError

PROGRAM = Path(__file__).with_name("flood.c")
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Flooded:
    """What the program says when it is over."""

    packets: int
    refused: int
    seconds: float

    @property
    def kpps(self) -> float:
        return self.packets / self.seconds / 1e3 if self.seconds else 0.0


def end_flood(process: subprocess.Popen[str]) -> Flooded:
    """Stop the program and read what it says. Raises PeerError when it failed."""
    if process.poll() is None:
        process.terminate()
    out, err = process.communicate(timeout=_END_TIMEOUT_S)
    words = out.split()
    if process.returncode != 0 or len(words) != 3:
        raise PeerError(f"the flood failed: {err.strip() or f'exit status {process.returncode}'}")
    return Flooded(int(words[0]), int(words[1]), float(words[2]))
