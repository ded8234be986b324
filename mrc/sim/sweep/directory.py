# SPDX-License-Identifier: BSD-2-Clause
"""Where a sweep keeps its cells: a directory each, whole or not there. What is there is not simulated again.

SWEEP/sweep.json            the cells, in order
SWEEP/cells/ID/*.parquet    the results of a cell; ID changes with whatever may change them
SWEEP/summary.parquet       a row a cell, when all are there
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mrc import __version__
from mrc.errors import CallerError, SystemRefused
from mrc.records import record
from mrc.sim.experiment import ExperimentFile
from mrc.sim.experiment.grid import Cell, cells
from mrc.sim.results import parquet
from mrc.whole_files import write_whole

PLAN = "sweep.json"
CELLS = "cells"
SUMMARY = "summary"
# The table of a cell whose metadata have its figures. All of a cell's tables are there when its directory is.
_FLOWS = "flows" + parquet.SUFFIX


@record(frozen=True, slots=True, eq=False)
class Task:
    """A cell to simulate: `id` is its name in the directory, `words` what sets it apart."""

    id: str
    cell: Cell

    @property
    def words(self) -> str:
        """`lossy, policies.evs=16, seed 2`."""
        cell = self.cell
        settings = [f"{key}={value}" for key, value in cell.settings.items() if key in cell.of_grid or not cell.case]
        return ", ".join([*([cell.case] if cell.case else []), *settings, f"seed {cell.seed}"])


def tasks(file: ExperimentFile) -> list[Task]:
    """All cells of a sweep, each with its id. Raises FileProblems; two cells that are the same are an error."""
    found: list[Task] = []
    by_id: dict[str, Task] = {}
    for cell in cells(file):
        identity = hashlib.sha256(f"{__version__} {cell.file.digest}".encode()).hexdigest()[:16]
        task = Task(identity, cell)
        if identity in by_id:
            same = by_id[identity]
            raise file.blame.problem(
                ("sweep",), f"cell {cell.number} ({task.words}) is the same as cell {same.cell.number} ({same.words})"
            )
        by_id[identity] = task
        found.append(task)
    return found


class SweepDirectory:
    """A context manager: one sweep at a time works in it. Raises CallerError where it is something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> SweepDirectory:
        path = self.path
        if path.exists() and not (path.is_dir() and ((path / PLAN).exists() or not any(path.iterdir()))):
            raise CallerError(f"{path} is there and is no sweep: name another directory with --out")
        try:
            (path / CELLS).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SystemRefused(error.errno, f"{path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise CallerError(f"{path}: another sweep is at work here") from None
        for left in (path / CELLS).glob(".*.part"):
            shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def begin(self, file: ExperimentFile, found: Sequence[Task]) -> None:
        """Write down what is to be simulated; a summary of other cells goes."""
        document = {
            "name": file.name,
            "version": __version__,
            "experiment": file.document,
            "cells": [
                {"id": task.id, "case": task.cell.case, "settings": task.cell.settings, "seed": task.cell.seed}
                for task in found
            ],
        }
        write_whole(self.path / PLAN, json.dumps(document, indent=1) + "\n")
        (self.path / (SUMMARY + parquet.SUFFIX)).unlink(missing_ok=True)

    def has(self, task: Task) -> bool:
        return (self.path / CELLS / task.id / _FLOWS).is_file()

    def add(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Put a cell's results in their place, all at once. What is there stays: a cell counts once."""
        part, place = self.path / CELLS / f".{task.id}.{os.getpid()}.part", self.path / CELLS / task.id
        try:
            part.mkdir(exist_ok=True)
            for name, content in files.items():
                (part / name).write_bytes(content)
            if not place.exists():
                part.rename(place)
        except OSError as error:
            raise SystemRefused(error.errno, f"{place}: cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def rows(self, found: Sequence[Task]) -> list[dict[str, Any]]:
        """A row for each cell: number, case, seed, its settings and figures. All cells must be there."""
        rows = []
        for task in found:
            about = parquet.about(self.path / CELLS / task.id / _FLOWS)
            cell = task.cell
            rows.append(
                {
                    "cell": cell.number,
                    "id": task.id,
                    "case": cell.case,
                    "seed": cell.seed,
                    **{key: _plain(value) for key, value in cell.settings.items()},
                    **about["figures"],
                }
            )
        return rows

    def summarize(self, file: ExperimentFile, found: Sequence[Task]) -> list[dict[str, Any]]:
        """Write `summary.parquet`, and return its rows."""
        rows = self.rows(found)
        about = {"name": file.name, "version": __version__, "digest": file.digest, "cells": len(rows)}
        write_whole(self.path / (SUMMARY + parquet.SUFFIX), parquet.encode_rows(rows, about))
        return rows


def _plain(value: Any) -> Any:
    """A setting as a value of a table."""
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)
