# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc bench lab --suite` prints: one row for MRC and for each baseline."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.bench_machine import machine_line
from mrc.cli.common import note, print_json
from mrc.report.tables import aligned

if TYPE_CHECKING:
    from mrc.bench.lab_run import LabPlan
    from mrc.bench.rounds import Rounds
    from mrc.bench.suite import Figure


def measure_suite(plan: LabPlan, as_json: bool) -> None:
    """Run it and print the table or the document."""
    from mrc.bench.suite import FIGURES, run_suite, suite_document

    def tell(number: int, name: str, figures: Mapping[str, Any]) -> None:
        if sys.stderr.isatty():
            known = [
                f"{value:.{figure.digits}f} {figure.heading}"
                for figure in FIGURES
                if name.endswith(f": {figure.measure}") and (value := figures.get(figure.key)) is not None
            ]
            note(f"round {number + 1} of {plan.rounds}: {name}: {', '.join(known)}")

    found = run_suite(plan, tell)
    if as_json:
        print_json(suite_document(plan, found))
    else:
        _print(plan, found)


def _print(plan: LabPlan, rounds: Rounds) -> None:
    from mrc.bench.lab_run import OURS
    from mrc.bench.suite import FIGURES

    shape, settings = plan.shape, plan.settings
    click.echo(
        f"{shape.planes} planes x {shape.spines} spines, writes of {settings.size} bytes in packets of {settings.mtu}, "
        f"{plan.rounds} rounds of {settings.seconds:g} s for each figure; medians, (least..most)"
    )
    click.echo(machine_line())
    rows = [["", *(figure.heading for figure in FIGURES)]]
    rows += [[who, *(_cell(rounds, who, figure) for figure in FIGURES)] for who in (OURS, *plan.baselines)]
    click.echo("\n".join(aligned(rows)))


def _cell(rounds: Rounds, who: str, figure: Figure) -> str:
    """`-` for what a program does not report; `>` where data did not come again as long as it was watched."""
    from mrc.bench.suite import CUT, part_name, resumed

    name = part_name(who, figure.measure)
    spread = rounds.spread(name, figure.key) if name in rounds.documents else None
    if spread is None:
        return "-"
    above = ">" if figure.measure == CUT and not resumed(rounds, who) else ""
    least, most = f"{spread.least:.{figure.digits}f}", f"{spread.most:.{figure.digits}f}"
    return f"{above}{spread.median:.{figure.digits}f} ({least}..{most})"
