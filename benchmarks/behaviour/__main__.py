# SPDX-License-Identifier: BSD-2-Clause
"""`benchmarks/virtual-time`: run experiments, print their figures, exit 1 when one misses its bar."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from behaviour.cut_cables import CUT_CABLES
from behaviour.figures import Experiment, Figures, Value
from behaviour.incast import INCAST
from behaviour.loss import LOSS
from behaviour.lossy_path import LOSSY_PATH
from behaviour.marked_path import MARKED_PATH
from behaviour.unequal_delays import UNEQUAL_DELAYS
from mrc.errors import SystemRefused
from mrc.report.plots import legend, svg
from mrc.report.tables import markdown
from mrc.whole_files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENTS = {each.name: each for each in (LOSS, INCAST, LOSSY_PATH, MARKED_PATH, UNEQUAL_DELAYS, CUT_CABLES)}


def as_document(experiment: Experiment, figures: Figures) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "verdict": "passed" if figures.passed else "failed",
        "bars": [
            {"what": bar.expectation.figure, "value": bar.actual, "limit": bar.expectation.sign, "holds": bar.holds}
            for bar in figures.bars
        ],
        "rows": list(figures.rows),
    }


def as_markdown(experiment: Experiment, figures: Figures) -> str:
    """A section as docs/virtual-time.md has it."""
    columns = list(figures.rows[0])
    lines = [f"## {experiment.title}", "", f"`benchmarks/virtual-time {experiment.name}`. {experiment.setup}", ""]
    lines += markdown(columns, [[_short(row[column]) for column in columns] for row in figures.rows])
    lines.append("")
    for bar in figures.bars:
        verdict, expected = "holds" if bar.holds else "**missed**", bar.expectation
        lines.append(f"- {verdict}: {expected.figure}: {_short(bar.actual)} (bar {expected.sign})")
    return "\n".join(lines) + "\n"


def _short(value: Value | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plot(experiment: Experiment, figures: Figures, file: Path) -> None:
    """The figures as a picture, if they have one. Raises NoPlots and SystemRefused."""
    lines = figures.plot
    if lines is None:
        return

    def draw(figure: Figure) -> None:
        axes: Any = figure.add_subplot()
        x = [row[lines.x] for row in figures.rows]
        for column, label in lines.lines.items():
            axes.plot(x, [row[column] for row in figures.rows], marker="o", label=label)
        axes.set(xlabel=lines.x_label, ylabel=lines.y_label, ylim=(0, None))
        legend(axes)

    write_whole(file, svg(experiment.title, draw))


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(EXPERIMENTS)))
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same figures.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--update",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Put the sections in the place of those that FILE has now: docs/virtual-time.md.",
)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write an SVG per plot there.")
def main(names: tuple[str, ...], seed: int, as_json: bool, update: Path | None, plots: Path | None) -> None:
    """Run the experiments of docs/virtual-time.md (all, or those named) in virtual time."""
    documents, sections = [], []
    for name in names or EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        figures = experiment.run(seed)
        documents.append(as_document(experiment, figures))
        sections.append(as_markdown(experiment, figures))
        if not as_json:
            click.echo(sections[-1])
        if plots is not None:
            plots.mkdir(parents=True, exist_ok=True)
            try:
                plot(experiment, figures, plots / f"{name}.svg")
            except SystemRefused as error:
                raise click.ClickException(str(error)) from error
    if update is not None:
        introduction, _, _ = update.read_text().partition("\n## ")
        update.write_text("\n".join((introduction, *sections)))
    if as_json:
        click.echo(json.dumps({"seed": seed, "experiments": documents}, indent=2))
    sys.exit(0 if all(each["verdict"] == "passed" for each in documents) else 1)


if __name__ == "__main__":
    main(prog_name="benchmarks/virtual-time")
