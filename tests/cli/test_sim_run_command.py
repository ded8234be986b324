# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim run`, `sweep` and `plot` as people call them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
from click.testing import CliRunner, Result
from programs import MRC

from mrc.cli import main

EXPERIMENT = """\
name: small
topology: {hosts: 8, planes: 2, hosts_per_leaf: 4, spines: 2}
workloads:
  - {kind: permutation, bytes: 20KB}
  - {kind: incast, senders: 3, bytes: 10KB}
sample: 1us
sweep:
  grid: {policies.evs: [1, 4]}
  cases:
    - {case: clean}
    - {case: lossy, links.fabric.loss: 1%}
"""


@pytest.fixture
def mrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in a directory with an experiment."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(EXPERIMENT)
    return lambda *argv: CliRunner().invoke(main, ["sim", *argv], prog_name="mrc")


def tables(directory: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}


def test_a_run_leaves_tables_and_says_what_happened(mrc: Callable[..., Result]) -> None:
    said = mrc("run", "small.yaml")
    assert said.exit_code == 0, said.stderr
    assert sorted(tables("small.results")) == [
        f"{name}.parquet" for name in ("flows", "links", "outages", "paths", "planes", "qps", "series")
    ]
    assert "small: 8 hosts, 11 writes; about " in said.stderr
    assert "permutation-0       8     8" in said.stdout
    assert said.stdout.endswith("small.results\n")


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(mrc: Callable[..., Result]) -> None:
    for directory, *options in (("a",), ("b",), ("c", "--seed", "5"), ("d", "--set", "seed=5")):
        assert mrc("run", "small.yaml", "--out", directory, *options).exit_code == 0
    assert tables("a") == tables("b")
    assert tables("c") == tables("d")
    assert tables("a")["flows.parquet"] != tables("c")["flows.parquet"]


def test_json_is_one_document(mrc: Callable[..., Result]) -> None:
    said = json.loads(mrc("run", "small.yaml", "--json").stdout)
    assert said["figures"]["flows_done"] == 11
    assert [job["job"] for job in said["jobs"]] == ["permutation-0", "incast-1"]
    assert said["figures"]["placed_bytes"] == 8 * 20_000 + 3 * 10_000


def test_results_are_not_replaced_unasked(mrc: Callable[..., Result]) -> None:
    assert mrc("run", "small.yaml").exit_code == 0
    again = mrc("run", "small.yaml")
    assert again.exit_code == 1
    assert again.stderr == "Error: small.results is there already: --overwrite replaces it, --out names another\n"
    assert mrc("run", "small.yaml", "--overwrite").exit_code == 0
    Path("small.results/mine").write_text("")
    assert "has other files than results" in mrc("run", "small.yaml", "--overwrite").stderr


def test_a_dry_run_simulates_nothing(mrc: Callable[..., Result]) -> None:
    said = mrc("run", "small.yaml", "--dry-run", "--json")
    document = json.loads(said.stdout)
    assert (document["hosts"], document["writes"], document["links"]) == (8, 11, 16 + 8)
    assert document["data_packets"] == 8 * 5 + 3 * 3
    assert os.listdir() == ["small.yaml"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("policies.evs=none", "--set policies.evs: must be a number of EVs, or all such as 128 or all, got none"),
        ("policies.ev=3", "--set policies.ev: unknown key, did you mean evs?"),
        ("workloads.7.bytes=3", "--set workloads.7.bytes: workloads has 2 items: no [7]"),
    ],
)
def test_a_wrong_setting_names_it(mrc: Callable[..., Result], setting: str, says: str) -> None:
    said = mrc("run", "small.yaml", "--set", setting)
    assert said.exit_code == 1
    assert said.stderr == f"Error: {says}\n"


def test_a_sweep_then_plots_of_it(mrc: Callable[..., Result]) -> None:
    said = mrc("sweep", "small.yaml", "--json", "--jobs", "1")
    assert said.exit_code == 0, said.stderr
    document = json.loads(said.stdout)
    assert [(row["case"], row["policies.evs"]) for row in document["rows"]] == [
        ("clean", 1), ("clean", 4), ("lossy", 1), ("lossy", 4),
    ]  # fmt: skip
    lines = ["plot", "lines", "small.sweep", "--x", "policies.evs", "--y", "fct_p99_us", "--by", "case"]
    heat = ["plot", "heat", "small.sweep", "--x", "policies.evs", "--y", "case", "--figure", "goodput_gbps"]
    for argv, name in ((lines, "small-fct_p99_us.svg"), (heat, "small-goodput_gbps-heat.svg")):
        drawn = mrc(*argv)
        assert (drawn.exit_code, drawn.stdout) == (0, f"{name}\n"), drawn.stderr
        content = Path(name).read_text()
        assert "lossy" in content
        assert "EVs of each QP" in content
        assert ("flow completion time, 99 %, us" if argv is lines else "goodput of all hosts, Gbit/s") in content
        assert "</svg>" in content
    wrong = mrc("plot", "lines", "small.sweep", "--x", "policies.ev", "--y", "fct_p99_us")
    assert "no 'policies.ev' in this sweep: there are cell, id, case" in wrong.stderr


def test_plots_of_a_run(mrc: Callable[..., Result]) -> None:
    assert mrc("run", "small.yaml").exit_code == 0
    for kind, shows in (("fct", "incast-1 (3)"), ("goodput", "Gbit/s"), ("links", "plane 1")):
        drawn = mrc("plot", kind, "small.results", "--out", f"{kind}.svg")
        assert drawn.exit_code == 0, drawn.stderr
        assert shows in Path(f"{kind}.svg").read_text()
    assert mrc("run", "small.yaml", "--seed", "2", "--out", "other.results").exit_code == 0
    assert mrc("plot", "fct", "small.results").stdout == "small-fct.svg\n"
    assert mrc("plot", "fct", "small.results", "other.results").stdout == "small-other-fct.svg\n"
    assert "no job 'training'" in mrc("plot", "fct", "small.results", "--job", "training").stderr
    assert "no results of mrc sim run" in mrc("plot", "fct", ".").stderr


@pytest.mark.parametrize(("ending", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF-")])
def test_a_plot_is_what_its_name_says(mrc: Callable[..., Result], ending: str, begins: bytes) -> None:
    assert mrc("run", "small.yaml").exit_code == 0
    for kind in ("fct", "goodput", "links"):
        drawn = mrc("plot", kind, "small.results", "--out", f"x.{ending}")
        assert (drawn.exit_code, drawn.stdout) == (0, f"x.{ending}\n"), drawn.stderr
        first = Path(f"x.{ending}").read_bytes()
        assert first.startswith(begins)
        # What differs from one time to another is of the format, not of the plot.
        if kind == "fct" or ending == "svg":
            assert mrc("plot", kind, "small.results", "--out", f"x.{ending}").exit_code == 0
            assert Path(f"x.{ending}").read_bytes() == first


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.PNG.gz"])
def test_an_ending_that_no_plot_has_is_one_error(mrc: Callable[..., Result], name: str) -> None:
    said = mrc("plot", "fct", "small.results", "--out", name)
    assert said.exit_code == 2
    assert said.stderr.splitlines()[-1] == (
        f"Error: Invalid value for '--out': {name}: a plot is a .svg, .png or .pdf file"
    )
    assert not Path(name).exists()


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(
        EXPERIMENT.replace("bytes: 20KB", "bytes: 1GB").replace("name: small", "name: long")
    )
    argv = [*MRC, "sim", "run", "long.yaml"]
    with programs.start(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "long: 8 hosts" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate()
    assert process.returncode == 130
    assert error == "interrupted; nothing is written\n"
    assert os.listdir(tmp_path) == ["long.yaml"]


def test_threads_change_no_byte(mrc: Callable[..., Result]) -> None:
    """512 hosts are several shards."""
    topology = "topology: {hosts: 512, hosts_per_leaf: 32, spines: 2}"
    text = EXPERIMENT.replace("topology: {hosts: 8, planes: 2, hosts_per_leaf: 4, spines: 2}", topology)
    assert topology in text
    Path("large.yaml").write_text(text.replace("bytes: 20KB", "bytes: 4KB").replace("name: small", "name: large"))
    for threads in ("1", "2"):
        said = mrc("run", "large.yaml", "--set", "end=8us", "--threads", threads, "--out", threads)
        # Not all are done so soon: status 1, and the results are there.
        assert said.exit_code == 1, said.stderr
        assert "had not completed at 8.0 us" in said.stderr
    assert tables("1") == tables("2")
    assert tables("1")["flows.parquet"]
