# SPDX-License-Identifier: BSD-2-Clause
"""A sweep from its file to its summary: cells that are missing are simulated, each is kept as it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mrc.records import record
from mrc.sim.experiment import ExperimentFile
from mrc.sim.sweep.directory import SweepDirectory, Task
from mrc.sim.sweep.pool import Finished

# Simulates cells; a generator.
Backend = Callable[[Sequence[Task]], Iterator[Finished]]


@record(frozen=True, slots=True, eq=False)
class Swept:
    """`rows` are those of the summary, none where cells are missing. `kept` cells were there, `problems` by cell."""

    rows: list[dict[str, Any]]
    kept: int
    simulated: int
    problems: dict[int, str]


def sweep(
    path: Path,
    file: ExperimentFile,
    found: Sequence[Task],
    backend: Backend,
    told: Callable[[Finished], None] = lambda _: None,
) -> Swept:
    """Simulate what is missing in the directory `path`. `told` is called for each cell that is done.

    Raises CallerError for a directory that is something else or in use, SystemRefused where it cannot be written.
    """
    with SweepDirectory(path) as directory:
        missing = [task for task in found if not directory.has(task)]
        directory.begin(file, found)
        problems: dict[int, str] = {}
        if missing:
            with closing(backend(missing)) as finished_ones:  # type: ignore[type-var]
                for finished in finished_ones:
                    if finished.problem:
                        problems[finished.task.cell.number] = finished.problem
                    else:
                        directory.add(finished.task, finished.files)
                    told(finished)
        rows = [] if problems else directory.summarize(file, found)
        return Swept(rows, len(found) - len(missing), len(missing) - len(problems), problems)
