# SPDX-License-Identifier: BSD-2-Clause
"""Cases about RC: where they are registered, and the requirements they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

from mrc.conformance.case import Case, add
from mrc.conformance.requirements import Requirement, tabled
from mrc.conformance.setup import Setup
from mrc.errors import CallerError
from mrc.rc.conformance.bench import RcBench

RcScript = Callable[[RcBench], None]
REGISTRY: dict[str, Case] = {}
# Settings a case may ask for, those of the verbs' ibv_qp_attr.
RC_OPTIONS: dict[str, str] = {
    "timeout": "t of the local ACK timeout, 4.096 us x 2^t",
    "retry_count": "retries without progress, 0 to 7",
    "rnr_retry": "retries of what finds no receive, 0 to 6; 7: without end",
    "min_rnr_timer": "code of the time that the responder asks for in an RNR NAK",
}


@cache
def rc_requirements() -> dict[str, Requirement]:
    """The tables of docs/contributing/requirements-rc.md, which lies beside this file as a link."""
    return tabled((files("mrc.rc.conformance") / "requirements.md").read_text(encoding="utf-8"), "RC")


def rc_case(
    case_id: str,
    *,
    look_at: str,
    first_psn: int | None = None,
    target_first_psn: int | None = None,
    path_mtu: int | None = None,
    ip: int | None = None,
    region: int = 4096,
    options: Mapping[str, int | str] | None = None,
) -> Callable[[RcScript], RcScript]:
    """Make a function a case of the requirement `case_id` names, as `mrc.conformance.case.case` does for MRC. Raises
    CallerError for an id that is taken or belongs to no requirement."""
    requirement = rc_requirements().get(case_id.partition("/")[0])
    if requirement is None:
        raise CallerError(f"case {case_id}: no such requirement in docs/contributing/requirements-rc.md")
    setup = Setup(
        ip=ip,
        path_mtu=path_mtu,
        first_psn=first_psn,
        target_first_psn=target_first_psn,
        region=region,
        options=options or {},
    )

    def register(script: RcScript) -> RcScript:
        add(REGISTRY, case_id, requirement, requirement.group, setup, script, look_at, RcBench)
        return script

    return register
