# SPDX-License-Identifier: BSD-2-Clause
"""The control case: its expectation is wrong on purpose. A run in which it does not come back failed proves nothing.

Its twin, with the right expectation, has to pass: a target that answers nothing at all fails the control case too.
"""

from __future__ import annotations

from functools import partial

from mrc.conformance.bench import Bench
from mrc.conformance.case import Case
from mrc.conformance.requirements import requirements
from mrc.conformance.setup import Setup


def _one_write(bench: Bench, *, claimed: int) -> None:
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, cack_psn=claimed)


def _case(case_id: str, about: str, claimed: int) -> Case:
    return Case(
        case_id,
        requirements()["MRC-SACK-06"],
        "control",
        Setup(),
        partial(_one_write, claimed=claimed),
        about,
        "the connection to the target: nothing else in this run can be trusted",
    )


CONTROL = _case(
    "CONTROL",
    "PSN 0 is sent and a SACK expected that claims PSN 1 too, which nobody sent: this has to come back failed.",
    1,
)
TWIN = _case("CONTROL/twin", "PSN 0 is sent and a SACK expected that says so: this has to pass.", 0)
