# SPDX-License-Identifier: BSD-2-Clause
"""The suite of plain RC, `mrc conformance --transport rc`."""

from __future__ import annotations

from typing import Final

from mrc.conformance.suite import Suite
from mrc.conformance.wrong_endpoints import Mutants
from mrc.rc.conformance.catalogue import RC_CONTROL, RC_TWIN, rc_catalogue, rc_missing
from mrc.rc.conformance.in_process import target

RC_MUTANTS: Final = Mutants("RC", "rc", "rc_mutants", "tests/mutants/rc holds them")


def rc_suite() -> Suite:
    return Suite(rc_catalogue(), rc_missing(), RC_CONTROL, RC_TWIN, target, RC_MUTANTS)
