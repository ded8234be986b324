# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim sweep`: all cells of a grid, resumable, on this host or on Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import interrupted, json_option, note, print_json
from mrc.cli.live_line import LiveLine
from mrc.cli.sim.settings import force_option, read_experiment, set_option, span_text

if TYPE_CHECKING:
    from mrc.sim.sweep.directory import Task
    from mrc.sim.sweep.pool import Finished
    from mrc.sim.sweep.sweep import Swept


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where cells and summary go, and where those of an earlier run are.  [default: NAME.sweep]",
)
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes.  [default: as many as processors]")
@click.option(
    "--ray",
    "ray_address",
    metavar="ADDRESS|auto",
    help="Simulate on the Ray cluster at this address; auto: the one this host is part of.",
)
@set_option
@force_option
@click.option("--dry-run", is_flag=True, help="Check all cells and estimate the cost; simulate nothing.")
@json_option
def sweep(
    file: Path,
    out: Path | None,
    jobs: int | None,
    ray_address: str | None,
    settings: tuple[str, ...],
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Simulate each cell of the sweep that FILE describes; a cell for each combination of grid, cases and seeds.

    Cells are kept as they are done: the same command again, after Ctrl-C or worse, simulates only the missing ones, and
    after a change of FILE those it changes. A cell whose process dies runs again. When all are there, summary.parquet
    has a row for each. Cells with writes that did not complete are named: flows_done is less than flows there.

    \b
    Examples:
      mrc sim sweep trimming.yaml
      mrc sim sweep trimming.yaml --jobs 8 --out trimming
      mrc sim sweep trimming.yaml --ray auto
      mrc sim sweep trimming.yaml --dry-run
      mrc sim plot lines trimming.sweep --x workloads.0.senders --y fct_p99_us --by links.hosts.trim_at
    """
    from mrc.sim.experiment.grid import check
    from mrc.sim.results import memory
    from mrc.sim.results.estimate import estimate
    from mrc.sim.results.parquet import check_pyarrow
    from mrc.sim.sweep.directory import tasks
    from mrc.sim.sweep.on_ray import run_on_ray
    from mrc.sim.sweep.pool import run_local
    from mrc.sim.sweep.sweep import sweep as sweep_cells

    experiment_file = read_experiment(file, settings)
    found = tasks(experiment_file)
    needed: list[int] = []
    check([task.cell for task in found], lambda setup: needed.append(estimate(setup).bytes))
    processes = min(jobs or len(os.sched_getaffinity(0)), len(found))
    if dry_run:
        costs = [estimate(task.cell.file.experiment().setup) for task in found]
        seconds = sum(each.seconds for each in costs) / processes
        document = {
            "name": experiment_file.name,
            "cells": len(found),
            "packet_hops": sum(each.hops for each in costs),
            "seconds": round(seconds, 1),
            "memory_bytes": max(each.bytes for each in costs) * processes,
        }
        _say(document, f"{experiment_file.name}: {len(found):,} cells, about {span_text(seconds)}", as_json)
        return
    check_pyarrow()
    if not force and not ray_address:
        what = "a cell" if processes == 1 else f"{processes} cells at a time"
        memory.check(max(needed) * processes, what, "take fewer --jobs or smaller cells, or go on with --force")
    directory = out or Path(f"{experiment_file.name}.sweep")
    progress = _Progress(experiment_file.name, found)
    try:
        with progress.line:
            swept = sweep_cells(
                directory,
                experiment_file,
                found,
                (lambda missing: run_on_ray(missing, ray_address))
                if ray_address
                else (lambda missing: run_local(missing, processes)),
                progress.told,
            )
    except KeyboardInterrupt:
        raise interrupted(
            f"interrupted; {progress.done:,} cells more are in {directory}, the same command goes on"
        ) from None
    for number, problem in swept.problems.items():
        note(f"cell {number} ({found[number].words}): {problem}")
    for row in swept.rows:
        if row["flows_done"] < row["flows"]:
            left = row["flows"] - row["flows_done"]
            text = f"cell {row['cell']} ({found[row['cell']].words}): {left:,} of {row['flows']:,} writes"
            note(f"{text} did not complete by {row['end_us']:,.1f} us")
    _say(_document(swept, directory, len(found)), _text(swept, directory, len(found)), as_json)
    if swept.problems:
        raise click.exceptions.Exit(1)


def _document(swept: Swept, directory: Path, cells: int) -> dict[str, Any]:
    return {
        "results": str(directory),
        "cells": cells,
        "kept": swept.kept,
        "simulated": swept.simulated,
        "problems": {str(number): problem for number, problem in swept.problems.items()},
        "rows": swept.rows,
    }


def _text(swept: Swept, directory: Path, cells: int) -> str:
    ended = f", {len(swept.problems):,} failed" if swept.problems else f"; {directory / 'summary.parquet'}"
    return f"{cells:,} cells: {swept.kept:,} were there, {swept.simulated:,} simulated{ended}"


def _say(document: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        click.echo(text)


class _Progress:
    """A line for each cell; on a terminal one line that is written anew."""

    def __init__(self, name: str, found: Sequence[Task]) -> None:
        self._name = name
        self.line = LiveLine()
        self._cells = len(found)
        self._began = time.monotonic()
        self.done = 0

    def told(self, finished: Finished) -> None:
        self.done += 1
        if finished.died and not finished.problem:
            self.line.clear()
            note(f"cell {finished.task.cell.number}: its process ended {finished.died} times, it ran again")
        text = f"{self._name}: {self.done:,} cells done of at most {self._cells:,}, the last: {finished.task.words}"
        if self.line.on_terminal:
            self.line.show(text)
        else:
            note(text)
