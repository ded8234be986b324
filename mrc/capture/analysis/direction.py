# SPDX-License-Identifier: BSD-2-Clause
"""One flow, analysed: its figures, and what they were counted from."""

from __future__ import annotations

from dataclasses import dataclass

from mrc.capture.analysis.doubt import Doubt
from mrc.capture.analysis.fates import LOST, Fates
from mrc.capture.analysis.figures import DirectionFigures
from mrc.capture.analysis.path_states import PathHistory, ProbeFates
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows


@dataclass(frozen=True, slots=True)
class Direction:
    """One flow, analysed. `requests` and `answers` are in order of time and without what no endpoint took (bad ICRCs,
    trimmed packets, second copies)."""

    figures: DirectionFigures
    requests: Rows
    answers: Rows
    fates: Fates
    histories: dict[int, PathHistory]
    probes: ProbeFates
    planes: dict[int, int | None]
    doubt: Doubt
    # Requests with a wrong ICRC, and second ones of those that the network doubled.
    bad: Rows
    doubled: Rows
    # Times without a request while something was unacknowledged.
    stalls_ns: I64
    # When the capture's last packet came, of whatever flow.
    end_ns: int

    @property
    def lost(self) -> Bools:
        """Which transmissions are known to be lost."""
        return self.fates.are(LOST) & ~self.doubt.unsettled

    @property
    def weight(self) -> int:
        return len(self.requests) + len(self.answers)
