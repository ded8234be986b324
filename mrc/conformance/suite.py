# SPDX-License-Identifier: BSD-2-Clause
"""A suite: all that `mrc conformance` needs to know of one transport. This is MRC's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mrc.conformance.case import Case
from mrc.conformance.catalogue import Missing, catalogue, missing
from mrc.conformance.control import CONTROL, TWIN
from mrc.conformance.target import Target
from mrc.conformance.targets.in_process import target
from mrc.conformance.wrong_endpoints import MRC_MUTANTS, Mutants


@dataclass(frozen=True, slots=True)
class Suite:
    """`own` gives this project's endpoint in virtual time, what --target self means."""

    cases: tuple[Case, ...]
    missing: tuple[Missing, ...]
    control: Case
    twin: Case
    own: Callable[[], Target]
    mutants: Mutants


def mrc_suite() -> Suite:
    return Suite(catalogue(), missing(), CONTROL, TWIN, target, MRC_MUTANTS)
