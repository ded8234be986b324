# SPDX-License-Identifier: BSD-2-Clause
"""The cells of a sweep: each combination of grid, cases and seeds, as an experiment of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from mrc.fabric.yaml_tree import KeyPath
from mrc.records import record
from mrc.sim.cluster import Setup
from mrc.sim.experiment.file import ExperimentFile

MOST_CELLS = 100_000
# The key of a case that names it.
CASE = "case"


@record(frozen=True, slots=True, eq=False)
class Cell:
    """One experiment of a sweep. `settings` are the values that set it apart, by key: those of its case, and those of
    the grid, whose keys are `of_grid`. `case` is the name of its case."""

    number: int
    settings: dict[str, Any]
    of_grid: tuple[str, ...]
    case: str
    seed: int
    file: ExperimentFile


def cells(file: ExperimentFile) -> list[Cell]:
    """All cells, in order: cases first, then the grid's keys, then seeds. Raises FileProblems, also for a value that
    some cell cannot have; without a `sweep` there is one cell."""
    sweep = file.document.get("sweep", {})
    grid, cases = sweep.get("grid", {}), sweep.get("cases", [{}])
    seeds = _seeds(file, sweep.get("seeds", 1))
    count = len(cases) * len(seeds)
    for values in grid.values():
        count *= len(values)
    if count > MOST_CELLS:
        raise file.blame.problem(("sweep",), f"these are {count:,} cells, at most {MOST_CELLS:,} are run")
    found: list[Cell] = []
    for case, *choice in itertools.product(range(len(cases)), *(range(len(values)) for values in grid.values())):
        settings, places = dict(_settings(file, cases, case)), {}
        for key in settings:
            places[key] = file.place(("sweep", "cases", case, key))
        for (key, values), chosen in zip(grid.items(), choice, strict=True):
            if key == "seed":
                raise file.blame.problem(("sweep", "grid", key), "seeds are said under seeds", at_key=True)
            if key in settings:
                raise file.blame.problem(("sweep", "grid", key), "is said in cases too", at_key=True)
            settings[key] = values[chosen]
            places[key] = file.place(("sweep", "grid", key, chosen))
        changed = file.changed(settings, places)
        name = str(cases[case].get(CASE, "")) if cases[case] else ""
        found += [
            Cell(len(found) + number, settings, tuple(grid), name, seed, changed.with_seed(seed))
            for number, seed in enumerate(seeds)
        ]
    return found


def _settings(file: ExperimentFile, cases: list[dict[str, Any]], case: int) -> Iterator[tuple[str, Any]]:
    path: KeyPath = ("sweep", "cases", case)
    for key, value in cases[case].items():
        if key != CASE:
            yield key, value
        elif not isinstance(value, str | int | float):
            raise file.blame.problem((*path, key), "must be a name")


def _seeds(file: ExperimentFile, said: Any) -> list[int]:
    if isinstance(said, list):
        if len(set(said)) < len(said):
            raise file.blame.problem(("sweep", "seeds"), "has a seed twice")
        return said
    first = int(file.document.get("seed", 0))
    return list(range(first, first + said))


def check(found: list[Cell], look: Callable[[Setup], object] = lambda _: None) -> None:
    """Make the setup of each cell that differs by more than the seed, and forget it; `look` is called with each.

    Raises FileProblems.
    """
    seen: set[str] = set()
    for cell in found:
        key = repr(cell.settings)
        if key not in seen:
            seen.add(key)
            look(cell.file.experiment().setup)
