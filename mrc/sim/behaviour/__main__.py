"""`tools/behaviour`: run experiments, print their figures, exit 1 when one misses its bar."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from mrc.sim.behaviour.figures import Experiment, Figures, Value
from mrc.sim.behaviour.incast import INCAST
from mrc.sim.behaviour.loss import LOSS
from mrc.sim.behaviour.lossy_path import LOSSY_PATH
from mrc.sim.behaviour.marked_path import MARKED_PATH
from mrc.sim.behaviour.unequal_delays import UNEQUAL_DELAYS

EXPERIMENTS = {each.name: each for each in (LOSS, INCAST, LOSSY_PATH, MARKED_PATH, UNEQUAL_DELAYS)}


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
    """A section as docs/simulations.md has it."""
    columns = list(figures.rows[0])
    lines = [f"## {experiment.title}", "", f"`tools/behaviour {experiment.name}`. {experiment.setup}", ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_short(row[column]) for column in columns) + " |" for row in figures.rows]
    lines.append("")
    for bar in figures.bars:
        verdict, expected = "holds" if bar.holds else "**missed**", bar.expectation
        lines.append(f"- {verdict}: {expected.figure}: {_short(bar.actual)} (bar {expected.sign})")
    return "\n".join(lines) + "\n"


def _short(value: Value | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plot(experiment: Experiment, figures: Figures, file: Path) -> None:
    """The figures as a picture; needs the extra `plot`."""
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise click.ClickException("pictures need matplotlib: pip install 'mrc[plot]'") from None
    if figures.plot is None:
        return
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    x = [row[figures.plot.x] for row in figures.rows]
    for column, label in figures.plot.lines.items():
        axes.plot(x, [row[column] for row in figures.rows], marker="o", label=label)
    axes.set(xlabel=figures.plot.x_label, ylabel=figures.plot.y_label, title=experiment.title, ylim=(0, None))
    axes.legend()
    figure.savefig(file)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(EXPERIMENTS)))
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same figures.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--update",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Put the sections in the place of those that FILE has now: docs/simulations.md.",
)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write an SVG per plot there.")
def main(names: tuple[str, ...], seed: int, as_json: bool, update: Path | None, plots: Path | None) -> None:
    """Run the experiments of docs/simulations.md (all, or those named) in virtual time."""
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
            plot(experiment, figures, plots / f"{name}.svg")
    if update is not None:
        introduction, _, _ = update.read_text().partition("\n## ")
        update.write_text("\n".join((introduction, *sections)))
    if as_json:
        click.echo(json.dumps({"seed": seed, "experiments": documents}, indent=2))
    sys.exit(0 if all(each["verdict"] == "passed" for each in documents) else 1)


if __name__ == "__main__":
    main(prog_name="tools/behaviour")
