# SPDX-License-Identifier: BSD-2-Clause
"""One experiment from its file to the content of its Parquet files: in this process or in another one's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mrc.records import record
from mrc.sim.cluster import Outcome, Progress, run
from mrc.sim.experiment import Experiment, ExperimentFile
from mrc.sim.results import agreement
from mrc.sim.results.about import about
from mrc.sim.results.parquet import check_pyarrow, encode_all
from mrc.sim.results.tables import tables


@record(frozen=True, slots=True, eq=False)
class Executed:
    """`files` is the content of each Parquet file by name, `about` what their metadata say."""

    experiment: Experiment
    outcome: Outcome
    about: dict[str, Any]
    files: dict[str, bytes]


def execute(
    file: ExperimentFile,
    experiment: Experiment | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int = 1,
) -> Executed:
    """Simulate by so many threads, and make the files of the tables, which are read back. Raises FileProblems,
    CallerError, and SimulationFault where the run or a file contradicts itself."""
    check_pyarrow()
    experiment = experiment or file.experiment()
    outcome = run(replace(experiment.setup, threads=threads), progress)
    said = about(file, experiment, outcome)
    made = tables(experiment, outcome)
    files = encode_all(made, said)
    agreement.check(made, files, said["figures"])
    return Executed(experiment, outcome, said, files)
