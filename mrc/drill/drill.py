# SPDX-License-Identifier: BSD-2-Clause
"""What a drill is: a lab, a script, figures read off what was seen, expectations of them, and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from mrc.drill.recording import Recording, integrity
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import Check, Expectation, at_least, exactly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = dict[str, float | None]

# What of a full packet on the wire is payload: 4096 bytes of 4184, an outer IPv6 header and Ethernet's.
PAYLOAD_SHARE = 4096 / (4184 + 40 + 14)

# A drill on a machine too busy for its links says little about the transport.
FIT = at_least("share_of_links_before", 0.9, "before anything happens the links are the limit, not the machine")

# In every drill, whatever it breaks.
INTEGRITY = (
    exactly("qp_errors", 0, "no QP goes to ERROR"),
    exactly("wrong_bytes", 0, "every write lies in the target's memory as it was sent"),
    exactly("misnumbered_writes", 0, "writes complete in the order they were posted"),
    exactly("undelivered_writes", 0, "every write that was posted arrives"),
)


class Verdict(Enum):
    """How a drill ended. UNSUPPORTED: this system lacks what it needs, or its control did not fail; no judgement.

    DISTURBED: it failed, and measurements say that the machine was too busy for it.
    """

    PASSED = "passed"
    FAILED = "failed"
    DISTURBED = "disturbed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Drill:
    """`perform` is the script, about `seconds` long; `measure` reads its figures off a recording, `draw` plots it.

    `needs_bpf`: it wants links that mark or trim, which take eBPF. `trims`: it is about packets that switches trim, and
    follows `Stage.trim_to_bytes`. `beside`: expectations that are held only where a transport that it is compared with,
    by name, could run. `common`: what is expected of it as of every drill; a drill without flows has none of that.
    `void_without`: where this one alone fails, what was to break did not, and there is no judgement.
    """

    name: str
    summary: str
    shape: Clos
    seconds: float
    perform: Callable[[Stage], None]
    measure: Callable[[Recording], Figures]
    draw: Callable[[Recording, Figure], None]
    expectations: tuple[Expectation, ...]
    needs_bpf: bool = False
    trims: bool = False
    beside: Mapping[str, tuple[Expectation, ...]] = field(default_factory=dict)
    common: tuple[Expectation, ...] = (FIT, *INTEGRITY)
    void_without: Expectation | None = None

    @property
    def own_expectations(self) -> tuple[Expectation, ...]:
        """Those that not every drill has."""
        return (*self.expectations, *(one for each in self.beside.values() for one in each))

    @property
    def all_expectations(self) -> tuple[Expectation, ...]:
        return (*self.common, *self.own_expectations)

    def judge(self, recording: Recording) -> Judgement:
        figures: dict[str, float | None] = dict(self.measure(recording))
        if recording.flows:
            figures |= integrity(recording)
        absent = recording.extra.get("missing", {})
        unheld = {one for name, each in self.beside.items() if name in absent for one in each}
        checks = tuple(each.check(figures) for each in self.all_expectations if each not in unheld)
        return Judgement(figures, checks, self.void_without)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Figures by name, with their unit in it, and what came of each expectation."""

    figures: Mapping[str, float | None]
    checks: tuple[Check, ...]
    void_without: Expectation | None = None

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.holds)

    @property
    def unfit(self) -> str | None:
        """Why this run says nothing about the transport, if so."""
        if self.void is not None:
            return self.void
        for check in self.failed:
            if check.expectation is FIT:
                share = "nothing" if check.actual is None else f"{check.actual:.0%}"
                return f"before anything happened the flow had {share} of what the links carry"
        return None

    @property
    def void(self) -> str | None:
        """Why there is no judgement, if so. What fails besides has failed all the same."""
        failed = self.failed
        return str(failed[0]) if [check.expectation for check in failed] == [self.void_without] else None

    @property
    def verdict(self) -> Verdict:
        if self.void is not None:
            return Verdict.UNSUPPORTED
        return Verdict.FAILED if self.failed else Verdict.PASSED

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "checks": [check.to_json() for check in self.checks],
            "figures": dict(self.figures),
        }
