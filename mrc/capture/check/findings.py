# SPDX-License-Identifier: BSD-2-Clause
"""What a check found: violations by requirement, counted, with the first packets of each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mrc.capture.frames import I64, Bools

FIRST_KEPT = 5


@dataclass(slots=True)
class Violation:
    """One way in which one requirement (an id of docs/contributing/requirements.md) is not met: `count` packets,
    the `first` of them by number."""

    requirement: str
    what: str
    count: int = 0
    first: list[int] = field(default_factory=list)


class Findings:
    """Violations as they come in, run by run. `passing`, where there is a filter, says which packets of the run
    count."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Violation] = {}
        self.passing: Bools | None = None
        self.first_number = 1

    def add(self, requirement: str, what: str, numbers: I64) -> None:
        """The packets with these numbers, all of the present run, do not meet a requirement."""
        if self.passing is not None:
            numbers = numbers[self.passing[numbers - self.first_number]]
        if not len(numbers):
            return
        numbers = np.unique(numbers)
        violation = self._found.setdefault((requirement, what), Violation(requirement, what))
        violation.count += len(numbers)
        violation.first += numbers[: FIRST_KEPT - len(violation.first)].tolist()

    @property
    def violations(self) -> list[Violation]:
        """In the order of their ids."""
        return [self._found[key] for key in sorted(self._found)]
