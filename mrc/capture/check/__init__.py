# SPDX-License-Identifier: BSD-2-Clause
"""A capture held to the protocol: `mrc dissect --check`."""

from __future__ import annotations

from mrc.capture.check.findings import Findings, Violation
from mrc.capture.check.packets import check_packets
from mrc.capture.check.sequence import Sequences
from mrc.capture.columns import Columns
from mrc.capture.frames import Bools

__all__ = ["Check", "Violation"]


class Check:
    """Takes in a capture run by run, in file order; `violations` at any time."""

    def __init__(self) -> None:
        self._findings = Findings()
        self._sequences = Sequences(self._findings)

    def add(self, columns: Columns, passing: Bools | None = None) -> None:
        """Check a run. With `passing` only violations of those packets count; all are looked at all the same."""
        self._findings.passing, self._findings.first_number = passing, columns.first
        check_packets(columns, self._findings)
        self._sequences.check(columns)

    @property
    def violations(self) -> list[Violation]:
        """By requirement id."""
        return self._findings.violations
