# SPDX-License-Identifier: BSD-2-Clause
"""All cases about RC, those of the requirements that have none, and the control case of its runs."""

from __future__ import annotations

from functools import cache, partial

import mrc.rc.conformance.cases
from mrc.conformance.case import Case
from mrc.conformance.catalogue import Missing, collected, without_case
from mrc.conformance.setup import Setup
from mrc.rc.conformance.bench import RcBench
from mrc.rc.conformance.case import REGISTRY, rc_requirements

# Why a requirement has no case.
RC_REASONS: dict[str, str] = {}


@cache
def rc_catalogue() -> tuple[Case, ...]:
    """Every case, by group, then in the order of the requirements."""
    return collected(mrc.rc.conformance.cases, REGISTRY, rc_requirements())


@cache
def rc_missing() -> tuple[Missing, ...]:
    """The requirements without a case, in the order of the document."""
    return without_case(rc_requirements(), rc_catalogue(), RC_REASONS)


def _one_write(bench: RcBench, *, claimed: int) -> None:
    bench.request(0, ackreq=1)
    bench.expect("ACK", psn=claimed)


def _control(case_id: str, about: str, claimed: int) -> Case:
    return Case(
        case_id,
        rc_requirements()["RC-RESP-02"],
        "control",
        Setup(),
        partial(_one_write, claimed=claimed),
        about,
        "the connection to the target: nothing else in this run can be trusted",
        RcBench,
    )


RC_CONTROL = _control(
    "CONTROL", "PSN 0 is sent and an ACK of PSN 1 expected, which nobody sent: this has to come back failed.", 1
)
RC_TWIN = _control("CONTROL/twin", "PSN 0 is sent and an ACK expected that says so: this has to pass.", 0)
