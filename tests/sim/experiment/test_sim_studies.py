"""The studies and the examples of docs/experiments.md are experiments that can be run as they stand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc.sim.cluster import run
from mrc.sim.experiment import ExperimentFile, Job
from mrc.sim.experiment.grid import cells, check
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
