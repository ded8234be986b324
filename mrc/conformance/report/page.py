# SPDX-License-Identifier: BSD-2-Clause
"""A run as one self-contained page: what failed first, every case with its script and its packets."""

from __future__ import annotations

from pathlib import Path

from mrc.conformance.results import Result, Run
from mrc.conformance.verdicts import ERROR, FAILED, PASSED, UNSUPPORTED, VERDICTS
from mrc.report import html
from mrc.whole_files import write_whole


def write_page(run: Run, path: Path) -> None:
    """Raises SystemRefused when the file cannot be written."""
    write_whole(path, page(run))


def page(run: Run) -> str:
    """The page as text."""
    headings = ((FAILED, "Failed"), (ERROR, "Errors"), (UNSUPPORTED, "Unsupported"), (PASSED, "Passed"))
    by_verdict = [(heading, [each for each in run.results if each.verdict == verdict]) for verdict, heading in headings]
    return html.page(
        "mrc.conformance.report",
        "page.html",
        title=f"{run.transport} conformance of {run.target}",
        run=run,
        groups=_groups(run),
        by_verdict=[(heading, results) for heading, results in by_verdict if results],
        facts=lambda result: _facts(result, run.strict),
    )


def _groups(run: Run) -> html.Table:
    rows: list[list[html.Cell]] = []
    for group in dict.fromkeys(result.case.group for result in run.results):
        verdicts = [result.verdict for result in run.results if result.case.group == group]
        rows.append([group, *(verdicts.count(verdict) for verdict in VERDICTS)])
    return html.Table(["group", *VERDICTS], rows, 1)


def _facts(result: Result, strict: bool) -> list[tuple[str, str]]:
    each, requirement = result.case, result.case.requirement
    facts = [
        ("shows", each.about),
        ("source", f"{requirement.source}, grade {requirement.grade}, {requirement.level}"),
    ]
    if result.verdict == FAILED:
        aside = "" if result.counts(strict) else f" (only a {requirement.level}: it does not count without --strict)"
        facts += [("expected", f"{result.expected}{aside}"), ("actual", str(result.actual)), ("look at", each.look_at)]
    elif result.verdict in (UNSUPPORTED, ERROR):
        facts.append(("reason", str(result.actual)))
    if result.unchecked:
        facts.append(("not checked", ", ".join(result.unchecked)))
    return facts
