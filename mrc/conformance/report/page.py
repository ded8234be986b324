# SPDX-License-Identifier: BSD-2-Clause
"""A run as one self-contained page: what failed first, every case with its script and its packets."""

from __future__ import annotations

from pathlib import Path

from mrc.conformance.results import Result, Run
from mrc.conformance.verdicts import ERROR, FAILED, PASSED, UNSUPPORTED, VERDICTS
from mrc.report import html
from mrc.report.html import escape
from mrc.whole_files import write_whole

_STORY = 60


def write_page(run: Run, path: Path) -> None:
    """Raises SystemRefused when the file cannot be written."""
    write_whole(path, page(run))


def page(run: Run) -> str:
    """The page as text."""
    title = f"{run.transport} conformance of {run.target}"
    body = [f"<h1>{escape(title)}</h1>", _lead(run), *_closing(run), _groups(run)]
    for verdict, heading in ((FAILED, "Failed"), (ERROR, "Errors"), (UNSUPPORTED, "Unsupported"), (PASSED, "Passed")):
        results = [result for result in run.results if result.verdict == verdict]
        if results:
            body.append(f"<h2>{heading}</h2>")
            body += [_case(result, run.strict) for result in results]
    return html.page(title, "\n".join(body), style=html.resource("mrc.conformance.report", "page.css"))


def _lead(run: Run) -> str:
    if run.void:
        return f"<p class=void><b>This run is void.</b> {escape(run.void)}</p>"
    aside = run.failed - run.counted
    only = f", of which {aside} do not count without --strict" if aside else ""
    return (
        f"<p class=lead>{run.passed} passed, {run.failed} failed{only}, {run.unsupported} unsupported, {run.errors} "
        f"ended in an error of the suite or the adapter, in {run.took_s:.1f} s. The control case, whose expectation is "
        "wrong on purpose, failed as it has to.</p>"
    )


def _closing(run: Run) -> list[str]:
    if run.closing is None:
        return []
    text = f"The target was not closed: {run.closing.actual}"
    return [f"<p class=void>{escape(text)}</p>\n<pre>{escape(run.closing.traceback)}</pre>"]


def _groups(run: Run) -> str:
    rows: list[list[html.Cell]] = []
    for group in dict.fromkeys(result.case.group for result in run.results):
        verdicts = [result.verdict for result in run.results if result.case.group == group]
        rows.append([group, *(verdicts.count(verdict) for verdict in VERDICTS)])
    return "<h2>Groups</h2>\n" + html.table(["group", *VERDICTS], rows, 1)


def _case(result: Result, strict: bool) -> str:
    each, requirement = result.case, result.case.requirement
    rows = [
        ("shows", each.about),
        ("source", f"{requirement.source}, grade {requirement.grade}, {requirement.level}"),
    ]
    if result.verdict == FAILED:
        aside = "" if result.counts(strict) else f" (only a {requirement.level}: it does not count without --strict)"
        rows += [("expected", f"{result.expected}{aside}"), ("actual", str(result.actual)), ("look at", each.look_at)]
    elif result.verdict in (UNSUPPORTED, ERROR):
        rows.append(("reason", str(result.actual)))
    if result.unchecked:
        rows.append(("not checked", ", ".join(result.unchecked)))
    terms = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    traceback = f"<pre class=traceback>{escape(result.traceback)}</pre>\n" if result.traceback else ""
    return (
        f"<details class='case {result.verdict}'{' open' if result.verdict in (FAILED, ERROR) else ''}>"
        f"<summary><b>{result.verdict}</b><code>{escape(each.id)}</code><span>{escape(requirement.text)}</span></summary>"
        f"<div><dl>{terms}</dl>\n{traceback}<pre>{escape(chr(10).join(result.log.story(_STORY)))}</pre>\n"
        f"<details><summary>script</summary><pre>{escape(each.source)}</pre></details></div></details>"
    )
