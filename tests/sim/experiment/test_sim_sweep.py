# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps: each cell once in the results, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from patience import eventually

from mrc.errors import CallerError
from mrc.fabric.yaml_file import FileProblems
from mrc.sim.experiment import ExperimentFile
from mrc.sim.results.parquet import about, read
from mrc.sim.sweep.directory import Task, tasks
from mrc.sim.sweep.pool import Finished, run_local
from mrc.sim.sweep.sweep import sweep

TEXT = """\
name: small
topology: {hosts: 8, planes: 2, hosts_per_leaf: 4, spines: 2}
workloads:
  - {kind: permutation, bytes: 20KB}
sweep:
  grid:
    policies.evs: [1, 2, 4]
    workloads.0.bytes: [10KB, 20KB]
  seeds: [3]
"""
# Ends its process when it is first called in a worker, and always for other sizes than those of `dies`.
KILLER = """\
import os, signal, sys
from pathlib import Path
import numpy as np
from mrc.sim.experiment import JobFlows

def make(job, marker, size, always=False):
    if sys.argv[0].endswith("worker.py") and size == 3000:
        times = len(list(Path(marker).iterdir()))
        (Path(marker) / str(times)).touch()
        if always or times == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    ranks = np.arange(1, job.ranks)
    return JobFlows(ranks, ranks - 1, np.full(len(ranks), size))
"""


def small(text: str = TEXT) -> ExperimentFile:
    return ExperimentFile.parsed(text)


def local(missing: Sequence[Task]) -> Iterator[Finished]:
    return run_local(missing, 2)


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*.parquet"))}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a sweep that nothing interrupted."""
    path = tmp_path_factory.mktemp("whole") / "out"
    sweep(path, small(), tasks(small()), local)
    return bytes_of(path)


def test_a_sweep_ends_with_a_row_for_each_cell(tmp_path: Path) -> None:
    file = small()
    swept = sweep(tmp_path / "out", file, tasks(file), local)
    assert (swept.kept, swept.simulated, swept.problems) == (0, 6, {})
    rows = read(tmp_path / "out" / "summary.parquet")
    assert rows["cell"].tolist() == list(range(6))
    assert rows["policies.evs"].tolist() == [1, 1, 2, 2, 4, 4]
    assert rows["seed"].tolist() == [3] * 6
    assert (rows["flows_done"] == 8).all()
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 6


def test_only_missing_cells_are_simulated_and_the_results_are_the_same(tmp_path: Path, whole: dict[str, bytes]) -> None:
    file = small()
    found = tasks(file)
    told: list[int] = []

    def interrupted(missing: Sequence[Task]) -> Iterator[Finished]:
        for finished in run_local(missing, 1):
            yield finished
            if len(told) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path / "out", file, found, interrupted, lambda each: told.append(each.task.cell.number))
    assert not (tmp_path / "out" / "summary.parquet").exists()
    swept = sweep(tmp_path / "out", file, found, local, lambda each: told.append(each.task.cell.number))
    assert (swept.kept, swept.simulated) == (2, 4)
    assert sorted(told) == list(range(6))
    assert bytes_of(tmp_path / "out") == whole


def test_a_change_of_the_file_simulates_what_it_changes(tmp_path: Path) -> None:
    file, other = small(), small(TEXT.replace("[1, 2, 4]", "[1, 2, 3]"))
    sweep(tmp_path / "out", file, tasks(file), local)
    swept = sweep(tmp_path / "out", other, tasks(other), local)
    assert (swept.kept, swept.simulated) == (4, 2)
    assert read(tmp_path / "out" / "summary.parquet")["policies.evs"].tolist() == [1, 1, 2, 2, 3, 3]


def test_a_worker_that_is_killed_is_replaced_and_its_cell_runs_again(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    text = TEXT.replace("{kind: permutation, bytes: 20KB}", "{kind: python, call: 'k.py:make', arguments: ARGUMENTS}")
    text = text.replace("ARGUMENTS", f"{{marker: {tmp_path / 'marks'}, size: 1000}}")
    text = text.replace("workloads.0.bytes: [10KB, 20KB]", "workloads.0.arguments.size: [2000, 3000]")
    file = ExperimentFile.parsed(text, files={"k.py": KILLER})
    swept = sweep(tmp_path / "out", file, tasks(file), local)
    assert (swept.simulated, swept.problems) == (6, {})
    assert len(list((tmp_path / "marks").iterdir())) == 4  # three cells of that size, one of them twice
    always = file.changed({"workloads.0.arguments.always": True})
    swept = sweep(tmp_path / "always", always, tasks(always), local)
    assert swept.simulated == 3
    assert set(swept.problems.values()) == {"its process ended 3 times before it was done"}
    assert swept.rows == []


# In a worker, cells of one size are not made before they may be.
WAITING = """\
import sys, time
from pathlib import Path
import numpy as np
from mrc.sim.experiment import JobFlows

def make(job, marker, size):
    while sys.argv[0].endswith("worker.py") and size == 2000 and not Path(marker).exists():
        time.sleep(0.01)
    ranks = np.arange(1, job.ranks)
    return JobFlows(ranks, ranks - 1, np.full(len(ranks), size))
"""


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGKILL of the command itself, while two of its cells are done and two are at work; its workers end too."""
    path, out, marker = tmp_path / "small.yaml", tmp_path / "out", tmp_path / "marker"
    text = TEXT.replace("kind: permutation, bytes: 20KB", "kind: python, call: 'k.py:make', arguments: ARGUMENTS")
    text = text.replace("ARGUMENTS", f"{{marker: {marker}, size: 1000}}")
    text = text.replace("workloads.0.bytes: [10KB, 20KB]", "workloads.0.arguments.size: [1000, 2000]")
    path.write_text(text)
    (tmp_path / "k.py").write_text(WAITING)
    argv = [sys.executable, "-m", "mrc", "sim", "sweep", str(path), "--out", str(out), "--jobs", "2", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        eventually(lambda: (out / "cells").exists() and len(list((out / "cells").glob("[!.]*/flows.parquet"))) == 2)
        workers = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
    marker.touch()
    assert process.returncode == -signal.SIGKILL
    assert len(workers) == 2
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until, "workers outlive the sweep"
        time.sleep(0.05)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["cells"] == 6
    assert (said["kept"], said["simulated"]) == (2, 4)
    file = ExperimentFile.read(path)
    sweep(tmp_path / "whole", file, tasks(file), local)
    assert bytes_of(out) == bytes_of(tmp_path / "whole")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(each)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for each in (thread / "children").read_text().split()
    ]


def test_one_sweep_at_a_time_works_in_a_directory(tmp_path: Path) -> None:
    file = small()

    def another(missing: Sequence[Task]) -> Iterator[Finished]:
        with pytest.raises(CallerError, match="another sweep is at work here"):
            sweep(tmp_path / "out", file, tasks(file), local)
        yield from ()

    with pytest.raises(CallerError, match="not there"):
        sweep(tmp_path / "out", file, tasks(file), another)


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    file = small()
    with pytest.raises(CallerError, match="is there and is no sweep"):
        sweep(tmp_path, file, tasks(file), local)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_two_cells_that_are_the_same_are_an_error() -> None:
    with pytest.raises(FileProblems, match=r"cell 2 \(policies.evs=1.*\) is the same as cell 0"):
        tasks(small(TEXT.replace("[1, 2, 4]", "[1, 1]")))


def test_results_say_what_they_are(tmp_path: Path) -> None:
    file = small()
    found = tasks(file)
    sweep(tmp_path / "out", file, found, local)
    said = about(tmp_path / "out" / "cells" / found[3].id / "flows.parquet")
    assert said["seed"] == 3
    assert said["model"].startswith("mrc.sim.cluster")
    assert said["validated"]
    assert said["experiment"]["policies"]["evs"] == 2
    assert said["digest"] == found[3].cell.file.digest
    assert os.fspath(tmp_path) not in json.dumps(said)
