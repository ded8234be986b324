# SPDX-License-Identifier: BSD-2-Clause
"""A run and the catalogue as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mrc.conformance.case import Case
from mrc.conformance.catalogue import Missing
from mrc.conformance.results import Result, Run
from mrc.conformance.verdicts import ERROR, FAILED

_STORY = 40  # packets shown of a case that failed or ended in an error


def run_document(run: Run) -> dict[str, Any]:
    """`cases`, their counts, and whether the run proves anything (`void` is null if it does)."""
    return {
        "transport": run.transport.lower(),
        "target": run.target,
        "strict": run.strict,
        "passed": run.passed,
        "failed": run.failed,
        "failed_that_count": run.counted,
        "unsupported": run.unsupported,
        "errors": run.errors,
        "void": run.void or None,
        "closing": None if run.closing is None else {"actual": run.closing.actual, "traceback": run.closing.traceback},
        "seconds": round(run.took_s, 3),
        "control": None if run.control is None else _result(run.control),
        "cases": [_result(result) for result in run.results],
    }


def _result(result: Result) -> dict[str, Any]:
    document = {
        **_about(result.case),
        "verdict": result.verdict,
        "expected": result.expected,
        "actual": result.actual,
        "traceback": result.traceback or None,
        "not_checked": list(result.unchecked),
        "run_again_because": result.repeated or None,
        "packets": len(result.log),
        "seconds": round(result.took_s, 4),
    }
    return document | ({"story": result.log.story(_STORY)} if result.verdict in (FAILED, ERROR) else {})


def _about(each: Case) -> dict[str, Any]:
    requirement = each.requirement
    return {
        "id": each.id,
        "requirement": requirement.text,
        "group": each.group,
        "grade": requirement.grade,
        "level": requirement.level,
        "source": requirement.source,
        "about": each.about,
        "look_at": each.look_at,
    }


def catalogue_document(cases: Sequence[Case]) -> dict[str, Any]:
    """The cases with their scripts and what each asks of a target."""
    return {"cases": [{**_about(each), "setup": _setup(each), "script": each.source} for each in cases]}


def _setup(each: Case) -> dict[str, Any]:
    return {**asdict(each.setup), "agreed": sorted(each.setup.agreed), "without": sorted(each.setup.without)}


def missing_document(without: Sequence[Missing]) -> dict[str, Any]:
    """The requirements without a case; `reason` is null where none is given."""
    return {
        "missing": [
            {"id": each.requirement.id, "requirement": each.requirement.text, "reason": each.reason or None}
            for each in without
        ]
    }
