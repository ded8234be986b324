# SPDX-License-Identifier: BSD-2-Clause
"""The studies and the examples of docs/experiments.md are experiments that can be run as they stand."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mrc import CORE
from mrc.cli import main
from mrc.core import COMPILED
from mrc.sim.cluster import run
from mrc.sim.experiment import ExperimentFile, Job
from mrc.sim.experiment.grid import Cell, cells, check
from mrc.sim.results.figures import figures

DOCS = Path(__file__).resolve().parents[3] / "docs"
STUDIES = sorted((DOCS / "studies").glob("*.yaml"))
PAGE = (DOCS / "experiments.md").read_text()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_has_a_file_a_plot_and_a_table(path: Path) -> None:
    file = ExperimentFile.read(path)
    assert file.name == path.stem
    check(cells(file))
    readme = (DOCS / "studies" / "README.md").read_text()
    shown = re.search(rf"<!-- table {file.name} -->\n(.*?)<!-- end -->", readme, re.DOTALL)
    assert shown
    assert shown[1].count("\n|") > 5
    assert f"({path.stem}.svg)" in readme
    assert path.with_suffix(".svg").is_file()


def _table(name: str) -> list[list[str]]:
    readme = (DOCS / "studies" / "README.md").read_text()
    shown = re.search(rf"<!-- table {name} -->\n(.*?)<!-- end -->", readme, re.DOTALL)
    assert shown
    heading, _, *rows = [line for line in shown[1].splitlines() if line]
    return [[each.strip() for each in line.strip("|").split("|")] for line in (heading, *rows)]


def _said(cell: Cell, column: str) -> str | None:
    """What a cell of a sweep has for a key, which a table calls by its last word; None for a figure."""
    keys = {key.rpartition(".")[2]: str(value) for key, value in cell.settings.items()}
    return cell.case if column == "case" else keys.get(column)


@pytest.mark.skipif(CORE.kind != COMPILED, reason="interpreted it takes minutes, and the figures are the same")
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_last_row_of_a_table_is_what_the_study_gives_today(path: Path) -> None:
    """`tools/studies --check` compares every row, in minutes."""
    columns, *_, row = _table(path.stem)
    sweep = cells(ExperimentFile.read(path))
    keys = [column for column in columns if _said(sweep[0], column) is not None]
    of_row = [cell for cell in sweep if [_said(cell, key) for key in keys] == row[: len(keys)]]
    assert of_row
    found = []
    for cell in of_row:
        experiment = cell.file.experiment()
        found.append(figures(experiment, run(experiment.setup)))
    today = [f"{np.mean([each[name] for each in found]):,.4g}" for name in columns[len(keys) :]]
    assert today == row[len(keys) :], f"tools/studies {path.stem} writes the table"


def test_all_eight_are_there() -> None:
    assert len(STUDIES) == 8


def block(kind: str, has: str) -> str:
    return next(text for text in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) if has in text)


def test_the_example_of_the_page_runs() -> None:
    """With a smaller array: interpreted a packet takes a while."""
    file = ExperimentFile.parsed(block("yaml", "name: incast")).changed({"workloads.1.bytes": "64KB"})
    experiment = file.experiment()
    outcome = run(experiment.setup)
    outcome.conservation.check()
    assert figures(experiment, outcome)["flows_done"] == 16 + 2 * 31 * 32


def _without_cost(printed: str) -> list[str]:
    """The lines of a run, without what depends on the machine: time, speed and memory."""
    text = re.sub(r"packet-hops: .*", "packet-hops", printed)
    return re.sub(r"packet-hops in .*", "packet-hops", text).splitlines()


@pytest.mark.skipif(CORE.kind != COMPILED, reason="interpreted it takes a minute, and the figures are the same")
def test_the_run_of_the_page_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("incast.yaml").write_text(block("yaml", "name: incast"))
    ran = CliRunner().invoke(main, ["sim", "run", "incast.yaml"])
    assert ran.exit_code == 0, ran.output
    shown = re.search(r"```\n\$ mrc sim run incast.yaml\n(.*?)```", PAGE, re.DOTALL)
    assert shown
    assert _without_cost(ran.output) == _without_cost(shown[1])
    reads = subprocess.run([sys.executable, "-c", block("python", "pq.read_table")], capture_output=True, text=True)
    assert reads.stderr == ""
    flows, figure = reads.stdout.split()
    assert flows == figure == "173.516"


def test_the_sweep_of_the_page_has_its_cells() -> None:
    text = block("yaml", "name: incast") + block("yaml", "case: trimming")
    assert len(cells(ExperimentFile.parsed(text))) == 2 * 4 * 2 * 3


def test_the_function_of_the_page_makes_flows(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(block("python", "def pipeline"))
    made: Any = runpy.run_path(str(tmp_path / "flows.py"))["pipeline"]
    flows = made(Job(4, np.arange(4), 16, np.random.default_rng(0)))
    assert flows.source.tolist() == [0, 1, 2]
    assert flows.waits.tolist() == [1, 2]
    assert flows.waits_for.tolist() == [0, 1]


def test_the_error_of_the_page_is_the_one_that_is_said() -> None:
    text = block("yaml", "name: incast").replace("senders: 16", "senders: many")
    with pytest.raises(ValueError) as caught:
        ExperimentFile.parsed(text, "incast.yaml")
    assert str(caught.value) in PAGE
