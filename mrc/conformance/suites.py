"""The suites there are, by transport: MRC's, and that of plain RC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mrc.conformance.case import Case
from mrc.conformance.catalogue import Missing
from mrc.conformance.target import Target

TRANSPORTS = MRC, RC = "mrc", "rc"


@dataclass(frozen=True, slots=True)
class Suite:
    """`own` gives this project's endpoint in virtual time, what --target self means."""

    cases: tuple[Case, ...]
    missing: tuple[Missing, ...]
    control: Case
    twin: Case
    own: Callable[[], Target]


def suite(transport: str) -> Suite:
    """The suite of one of TRANSPORTS."""
    if transport == RC:
        from mrc.conformance.rc.catalogue import RC_CONTROL, RC_TWIN, rc_catalogue, rc_missing
        from mrc.conformance.rc.in_process import target as own_rc

        return Suite(rc_catalogue(), rc_missing(), RC_CONTROL, RC_TWIN, own_rc)
    from mrc.conformance.catalogue import catalogue, missing
    from mrc.conformance.control import CONTROL, TWIN
    from mrc.conformance.targets.in_process import target as own_mrc

    return Suite(catalogue(), missing(), CONTROL, TWIN, own_mrc)
