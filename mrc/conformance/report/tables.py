# SPDX-License-Identifier: BSD-2-Clause
"""The tables of docs/conformance.md: mutants against cases, and the requirements without a case.

Against every case a mutant takes as long as a whole run; as a rule it meets those of the groups (MRC-SACK, say) of the
requirements that are to catch it.

`tools/conformance-tables` runs this; nothing else writes between the markers of that page.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mrc.conformance.case import Case
from mrc.conformance.catalogue import Missing, catalogue, missing
from mrc.conformance.runner import run
from mrc.conformance.verdicts import ERROR, FAILED
from mrc.conformance.wrong_endpoints import MRC_MUTANTS, WrongEndpoint, wrong_endpoint, wrong_endpoints
from mrc.errors import CallerError
from mrc.report.tables import markdown

_MORE_THAN = 6  # cases named beyond those a mutant is meant for


@dataclass(frozen=True, slots=True)
class Row:
    """One mutant: the cases that fail it, whether the run was void, and the cases that ended in an error."""

    mutant: str
    failed: tuple[str, ...]
    void: bool
    errors: tuple[str, ...] = ()

    def lacking(self, caught_by: Sequence[str]) -> list[str]:
        """The requirements that should have caught it and did not."""
        requirements = {each.partition("/")[0] for each in self.failed}
        return [each for each in caught_by if each not in requirements]


def against_its_groups(name: str) -> Row:
    """Run against a mutant every case of the groups of the requirements that are to catch it."""
    mutant = wrong_endpoint(name, MRC_MUTANTS)
    groups = {_group(each) for each in mutant.caught_by}
    return _against(name, [case for case in catalogue() if _group(case.id.partition("/")[0]) in groups])


def against_all(name: str) -> Row:
    """Run every case against a mutant."""
    return _against(name, catalogue())


def _group(requirement: str) -> str:
    return requirement.rpartition("-")[0]


def _against(name: str, cases: Sequence[Case]) -> Row:
    found = run(cases, wrong_endpoint(name, MRC_MUTANTS).target(), strict=True)
    failed, errors = (
        tuple(result.case.id for result in found.results if result.verdict == verdict) for verdict in (FAILED, ERROR)
    )
    return Row(name, failed, bool(found.void), errors)


def mutant_table(rows: Sequence[Row], known: dict[str, WrongEndpoint]) -> str:
    """A row a mutant: the cases of the requirements it is meant for first, then how many more fail."""
    lines = []
    for row in rows:
        mutant = known[row.mutant]
        meant = [each for each in row.failed if each.partition("/")[0] in mutant.caught_by]
        others = [each for each in row.failed if each not in meant]
        cases = [f"**{each}**" for each in meant] + (others if len(others) <= _MORE_THAN else [])
        if len(others) > _MORE_THAN:
            cases.append(f"and {len(others)} more")
        void = "; the run is void" if row.void else ""
        lines.append((row.mutant, mutant.what, f"{', '.join(cases)}{void}"))
    return "\n".join(markdown(("mutant", "what is wrong", "cases that fail it"), lines))


def missing_table(without: Sequence[Missing]) -> str:
    """A row for requirements that follow each other and share a reason; those without a reason are left out."""
    lines = []
    for reason, group in groupby(without, key=lambda each: each.reason):
        ids = [each.requirement.id for each in group]
        if reason:
            lines.append((", ".join(ids), reason))
    return "\n".join(markdown(("requirements", "why there is no case"), lines))


def between_markers(page: str, name: str, table: str) -> str:
    """The page with another table between its markers. Raises CallerError when it has none of that name."""
    begin, end = f"<!-- {name}: made by tools/conformance-tables -->\n", f"\n<!-- end of {name} -->"
    if begin not in page or end not in page:
        raise CallerError(f"the page has no markers for {name}")
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + table + end, page, flags=re.DOTALL)


def main(page: Path, note: Callable[[str], None] = print, *, every_case: bool = False) -> int:
    """Run every mutant and write the tables of docs/conformance.md. Exit status 1 when one was not caught, or ended a
    case in an error: what a target does may fail a case and never break its script."""
    known = wrong_endpoints(MRC_MUTANTS)
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        rows = list(pool.map(against_all if every_case else against_its_groups, known))
    text = page.read_text(encoding="utf-8")
    text = between_markers(text, "mutants", mutant_table(rows, known))
    page.write_text(between_markers(text, "missing", missing_table(missing())), encoding="utf-8")
    lacking = {row.mutant: found for row in rows if (found := row.lacking(known[row.mutant].caught_by))}
    for name, ids in lacking.items():
        note(f"{name} is not caught by {', '.join(ids)}")
    broken = {row.mutant: row.errors for row in rows if row.errors}
    for name, cases in broken.items():
        note(f"{name} ended in an error: {', '.join(cases)}")
    note(f"{len(rows)} mutants, {len(rows) - len(lacking)} of them caught by what should catch them")
    return 1 if lacking or broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tools/conformance-tables", description=main.__doc__)
    parser.add_argument("page", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--all", action="store_true", help="against every case: an hour instead of a quarter of one")
    given = parser.parse_args()
    sys.exit(main(given.page, every_case=given.all))
