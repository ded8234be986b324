# SPDX-License-Identifier: BSD-2-Clause
"""What a run found out."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc.conformance.case import Case
from mrc.conformance.endings import Ending
from mrc.conformance.requirements import MUST
from mrc.conformance.verdicts import ERROR, FAILED, PASSED, UNSUPPORTED
from mrc.conformance.wire_log import WireLog


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended. `expected` and `actual` are None in a passed one; of an unsupported one `actual` is the
    reason, of an error who raised what. `unchecked` names checks the target gave no means to make. `took_s` is real
    time. `traceback` is that of an error, or of a target that crashed. `repeated` says why it was run again after a
    failure, and `lost` how the target was lost; these are "" as a rule."""

    case: Case
    verdict: str
    expected: str | None
    actual: str | None
    unchecked: tuple[str, ...]
    log: WireLog
    took_s: float
    traceback: str = ""
    repeated: str = ""
    lost: str = ""

    def counts(self, strict: bool) -> bool:
        """Whether it fails the run: a failed must, with `strict` any that failed."""
        return self.verdict == FAILED and (strict or self.case.requirement.level == MUST)


@dataclass(slots=True)
class Run:
    """A run over a target. `void` says why it proves nothing, "" if it does prove something; `closing` how the target
    was closed where that raised, None as a rule."""

    target: str
    strict: bool
    transport: str = "MRC"
    results: list[Result] = field(default_factory=list)
    control: Result | None = None
    void: str = ""
    closing: Ending | None = None

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    @property
    def passed(self) -> int:
        return self.count(PASSED)

    @property
    def failed(self) -> int:
        return self.count(FAILED)

    @property
    def unsupported(self) -> int:
        return self.count(UNSUPPORTED)

    @property
    def errors(self) -> int:
        """Cases that the suite or the adapter ended: they prove nothing, and the run is not good."""
        return self.count(ERROR)

    @property
    def counted(self) -> int:
        """Failures that fail the run."""
        return sum(result.counts(self.strict) for result in self.results)

    @property
    def good(self) -> bool:
        return not (self.void or self.counted or self.errors or self.closing)

    @property
    def took_s(self) -> float:
        return sum(result.took_s for result in self.results)
