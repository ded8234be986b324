# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim run` tried as an outsider would: what cannot be right is no result, and what failed is no success."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import programs
import pytest
from click.testing import CliRunner, Result
from patience import PATIENCE_S
from programs import MRC

from mrc.cli import main
from mrc.sim.results.parquet import read

TOPOLOGY = "topology: {hosts: 16, planes: 1, hosts_per_leaf: 8, spines: 8}"
MATRIX = f"{TOPOLOGY}\npolicies: {{evs: 8}}\nend: 20ms\nworkloads: [{{kind: matrix, file: flows.cm}}]\n"


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run an experiment of this text in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *options: str, **files: str) -> Result:
        Path("it.yaml").write_text(f"name: it\n{text}")
        for name, content in files.items():
            Path(name.replace("_", ".")).write_text(content)
        return CliRunner().invoke(main, ["sim", "run", "it.yaml", "--overwrite", *options], prog_name="mrc")

    return run


def flows() -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    return read(Path("it.results/flows.parquet"))


def matrix(*rows: tuple[int, int, int, int]) -> str:
    """Source, destination, start in ns and bytes of each."""
    lines = [f"{a}->{b} id {n} start {at * 1000} size {size}" for n, (a, b, at, size) in enumerate(rows, 1)]
    return "\n".join(["Nodes 16", f"Connections {len(rows)}", *lines]) + "\n"


# ------------------------------------------------------------------ time


@pytest.mark.parametrize(
    "starts", [(0, 100_000, 5_000_000), (0, 5_000_000), (0, 1_001_000, 2_002_000, 19_000_000), (0, 0, 15_000_000)]
)
def test_writes_of_one_pair_with_pauses(sim: Callable[..., Result], starts: tuple[int, ...]) -> None:
    said = sim(MATRIX, flows_cm=matrix(*((0, 8, at, 4096) for at in starts)))
    assert said.exit_code == 0, said.stderr
    found = flows()
    assert found["started"].tolist() == list(starts)
    assert (found["arrived"] > found["started"]).all()
    assert ((found["fct"] > 5_000) & (found["fct"] < 7_000)).all()
    took = re.search(rf"matrix-0 +{len(starts)} +{len(starts)} +([0-9,.]+)", said.stdout)
    assert took
    assert float(took[1].replace(",", "")) > starts[-1] / 1e3


def test_a_port_carries_no_more_than_its_rate(sim: Callable[..., Result]) -> None:
    rows = matrix((0, 8, 0, 4096), (0, 8, 100_000, 4096), (0, 8, 3_000_000, 4096), (1, 9, 0, 60_000_000))
    said = sim(MATRIX, "--json", flows_cm=rows)
    assert said.exit_code == 0, said.stderr
    document = json.loads(said.stdout)
    assert document["figures"]["fct_max_us"] > 4_800
    assert document["figures"]["goodput_gbps"] < 100
    assert document["unfinished"] == []


def test_phases_of_all_hosts(sim: Callable[..., Result]) -> None:
    text = f"{TOPOLOGY}\npolicies: {{evs: 8}}\nend: 50ms\nworkloads:\n" + "".join(
        f"  - {{kind: permutation, name: {name}, shift: 8, bytes: 4KiB, start: {start}}}\n"
        for name, start in (("first", "0us"), ("second", "100us"), ("third", "5ms"), ("fourth", "40ms"))
    )
    said = sim(text, "--json")
    assert said.exit_code == 0, said.stderr
    jobs = {job["job"]: job for job in json.loads(said.stdout)["jobs"]}
    assert all(5 < job["took_us"] < 8 and job["flows_done"] == 16 for job in jobs.values())


# ------------------------------------------------------------------ hosts of several jobs


def test_a_host_is_a_member_of_several_communicators(sim: Callable[..., Result]) -> None:
    text = """\
topology: {hosts: 64, planes: 4, hosts_per_leaf: 8, spines: 8}
workloads:
  - {kind: all-reduce, name: tp0, hosts: [0,1,2,3], bytes: 1MB}
  - {kind: all-reduce, name: dp0, hosts: [0,4,8,12], bytes: 1MB}
  - {kind: all-to-all, name: ep0, hosts: [3,2,1,0], bytes: 10KB}
  - {kind: incast, name: free, senders: 3, bytes: 10KB}
end: 10ms
"""
    said = sim(text)
    assert said.exit_code == 0, said.stderr
    found = flows()
    ends = {
        job: set(found["source"][found["job"] == job]) | set(found["destination"][found["job"] == job])
        for job in ("tp0", "dp0", "ep0", "free")
    }
    assert ends["tp0"] == ends["ep0"] == {0, 1, 2, 3}
    assert ends["dp0"] == {0, 4, 8, 12}
    # Who names no hosts gets none of those.
    assert not ends["free"] & (ends["tp0"] | ends["dp0"])
    twice = sim(text.replace("[0,4,8,12]", "[0,4,8,0]"))
    assert twice.exit_code == 1
    assert "host 0 is named twice" in twice.stderr


# ------------------------------------------------------------------ failures that are told


CONTROLLER = """\
from mrc.endpoint.congestion import CongestionController

class Own(CongestionController):
    cwnd = 100_000
    def __init__(self, sizes):
        super().__init__()
    def on_ack(self, *args, **kwargs):
        pass
    on_loss = on_nack = on_rtt = on_ack
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("    def on_ack(self, *a, **k): raise ValueError('mine')", "raised in on_ack: ValueError: mine"),
        ("    cwnd = float('nan')", "has a window of nan bytes: cwnd must be a number"),
        ("    cwnd = 0", "has a window of 0 bytes at the end"),
        ("    cwnd = property(lambda self: 1 / 0)", "raised in cwnd: ZeroDivisionError: division by zero"),
        ("    def __init__(self, sizes): raise KeyError('mine')", "own.py:10: KeyError: 'mine'"),
        ("    def __init__(self): pass", "own.py"),
    ],
)
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_controller_that_fails_fails_the_run(sim: Callable[..., Result], fault: str, says: str, command: str) -> None:
    text = f"{TOPOLOGY}\nworkloads: [{{kind: permutation, bytes: 100KB}}]\npolicies: {{controller: 'own.py:Own'}}\n"
    said = sim(text, own_py=CONTROLLER + fault + "\n")
    if command == "sweep":
        said = CliRunner().invoke(main, ["sim", "sweep", "it.yaml", "--jobs", "1"], prog_name="mrc")
    assert said.exit_code == 1
    assert says in said.stderr
    assert len(re.findall("^Error: ", said.stderr, re.MULTILINE)) == (command == "run")
    if command == "run":
        assert said.stderr.splitlines()[-1].startswith("Error: ")
        assert said.stderr.count("Traceback") <= 1
        assert len(said.stderr.splitlines()) < 30
        assert said.stdout == ""
    assert not Path("it.results").exists()


def test_the_traceback_of_what_a_controller_raised_is_shown(sim: Callable[..., Result]) -> None:
    text = f"{TOPOLOGY}\nworkloads: [{{kind: permutation, bytes: 100KB}}]\npolicies: {{controller: 'own.py:Own'}}\n"
    fault = "    def on_ack(self, *a, **k):\n        return self.nothing_of_this_name\n"
    said = sim(text, own_py=CONTROLLER + fault)
    assert said.stderr.count("Traceback (most recent call last)") == 1
    assert 'File "own.py", line 11, in on_ack' in said.stderr


@pytest.mark.parametrize("body", ["return 1 / 0", "raise LookupError('none')"])
def test_a_choice_of_evs_that_raises_fails_the_run(sim: Callable[..., Result], body: str) -> None:
    text = f"{TOPOLOGY}\nworkloads: [{{kind: permutation, bytes: 100KB}}]\n"
    said = sim(text + "policies: {evs: 4, ev_choice: 'own.py:one'}\n", own_py=f"def one(request):\n    {body}\n")
    assert said.exit_code == 1
    assert said.stderr.count("Traceback") == 1
    assert said.stderr.splitlines()[-1].startswith("Error: own.py:2: ")


def test_a_function_that_makes_flows_and_raises_fails_the_run(sim: Callable[..., Result]) -> None:
    said = sim(
        f"{TOPOLOGY}\nworkloads: [{{kind: python, call: 'own.py:make', ranks: 4}}]\n",
        own_py="def make(job):\n    return job.nothing\n",
    )
    assert said.exit_code == 1
    assert said.stderr.count("Traceback") == 1
    assert "own.py:2: AttributeError" in said.stderr.splitlines()[-1]


@pytest.mark.parametrize("rows", [[(0, 1, 1), (1, 0, 2)], [(0, 1, 1), (1, 2, 2), (2, 0, 3)]])
def test_writes_that_wait_for_each_other_are_refused(
    sim: Callable[..., Result], rows: list[tuple[int, int, int]]
) -> None:
    """Each is started by the trigger that the one before it fires."""
    count = len(rows)
    lines = [
        f"{a}->{b} id {n} trigger {n} size 100 send_done_trigger {n % count + 1}" for n, (a, b, _) in enumerate(rows, 1)
    ]
    triggers = [f"trigger id {n} oneshot" for n in range(1, count + 1)]
    text = "\n".join(["Nodes 16", f"Connections {count}", f"Triggers {count}", *lines, *triggers]) + "\n"
    said = sim(MATRIX, flows_cm=text)
    assert said.exit_code == 1
    assert "writes wait for each other in a circle, and none would start" in said.stderr
    assert "it.yaml:5:13: workloads[0]" in said.stderr
    assert not Path("it.results").exists()


def test_writes_that_had_not_completed_at_the_end_are_named(sim: Callable[..., Result]) -> None:
    rows = matrix((0, 8, 0, 4096), (1, 9, 0, 60_000_000), (2, 10, 3_000_000, 4096))
    said = sim(MATRIX.replace("20ms", "1ms"), flows_cm=rows)
    assert said.exit_code == 1
    assert said.stderr.splitlines()[-2:] == [
        "Error: 1 write had not completed at 1,000.0 us: row 1 of matrix-0, host 1 to host 9",
        "Error: 1 write had not begun at 1,000.0 us, which is before their time: row 2 of matrix-0, host 2 to host 10",
    ]
    # What there is of it is right, and is there.
    assert flows()["completed"][0] > 0
    assert "matrix-0       3     1" in said.stdout


def test_writes_that_failed_are_named_and_those_that_wait_for_them(sim: Callable[..., Result]) -> None:
    text = """\
topology: {hosts: 16, planes: 1, hosts_per_leaf: 8, spines: 1}
failures: [{kind: cut, at: 0us, target: p0l0-p0s0}]
workloads: [{kind: all-reduce, hosts: [0, 8, 1], bytes: 3KB}]
end: 20s
"""
    said = sim(text, "--json")
    assert said.exit_code == 1
    document = json.loads(said.stdout)
    # 0 to 8 and 8 to 1; from 1 to 0 the first part comes through, and is to be passed on to 8.
    assert document["figures"]["failed_flows"] == 3
    failed, waiting = document["unfinished"]
    assert failed.startswith("3 writes failed: no retries were left")
    assert "had not begun at" in waiting
    assert "what they wait for has not arrived" in waiting


def test_a_sweep_names_cells_with_writes_that_did_not_complete(sim: Callable[..., Result]) -> None:
    sim(MATRIX + "sweep: {grid: {end: [1ms, 30ms]}}\n", flows_cm=matrix((1, 9, 0, 60_000_000)))
    said = CliRunner().invoke(main, ["sim", "sweep", "it.yaml", "--jobs", "1"], prog_name="mrc")
    assert said.exit_code == 0
    assert said.stderr.count("1 of 1 writes did not complete by 1,000.0 us") == 1


# ------------------------------------------------------------------ memory and signals


HUGE = """\
topology: {hosts: 512, planes: 1, hosts_per_leaf: 32, spines: 8}
workloads: [{kind: all-to-all, bytes: 4KiB}]
end: 1us
"""


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_run_that_needs_more_memory_than_there_is_is_refused(tmp_path: Path, command: str) -> None:
    """With two gigabytes; all to all of 512 hosts needs 35."""
    (tmp_path / "huge.yaml").write_text(HUGE)
    argv = [*MRC, "sim", command, "huge.yaml"]
    limits = {resource.RLIMIT_AS: 2_000_000_000}
    done = programs.run(argv, cwd=tmp_path, capture_output=True, text=True, limits=limits, timeout=120)
    assert done.returncode == 1
    assert re.search(r"Error: (this run|.*cells? .*|a cell) needs? about [0-9.]+ GiB of memory, ", done.stderr)
    assert "--force" in done.stderr
    assert os.listdir(tmp_path) == ["huge.yaml"]


def test_with_force_a_run_goes_on(sim: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.sim.results.memory.available", lambda: 1000)
    refused = sim(MATRIX, flows_cm=matrix((0, 8, 0, 1)))
    assert refused.exit_code == 1
    assert re.search(r"this run needs about [0-9.]+ MiB of memory, 1000 B are there", refused.stderr)
    assert sim(MATRIX, "--force", flows_cm=matrix((0, 8, 0, 1))).exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("hosts", "after"), [("8", 0.0), ("8", 0.3), ("1024", 0.0), ("256", 0.7)])
def test_a_signal_ends_a_run_soon_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, threads: str, hosts: str, after: float
) -> None:
    """It would go on for hours."""
    (tmp_path / "long.yaml").write_text(
        f"topology: {{hosts: {hosts}, planes: 2, hosts_per_leaf: 4, spines: 2}}\n"
        "workloads: [{kind: permutation, bytes: 1GB}]\n"
    )
    argv = [*MRC, "sim", "run", "long.yaml", "--threads", threads]
    with programs.start(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "hosts" in process.stderr.readline()
        time.sleep(after)
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(PATIENCE_S) == 128 + number
    assert said == "interrupted; nothing is written\n"
    assert os.listdir(tmp_path) == ["long.yaml"]


def test_files_are_read_back_by_no_thread_but_this(sim: Callable[..., Result]) -> None:
    """One of pyarrow's that wants the interpreter's lock while the process ends aborts it, whatever was written."""
    assert sim(f"{TOPOLOGY}\nend: 1ms\nworkloads: [{{kind: incast, senders: 2, bytes: 4KB}}]\n").exit_code == 0
    program = (
        "import os, pathlib; from mrc.sim.results.parquet import check_pyarrow, decode; check_pyarrow()\n"
        "before = os.listdir('/proc/self/task')\n"
        "decode(pathlib.Path('it.results/flows.parquet').read_bytes())\n"
        "assert os.listdir('/proc/self/task') == before\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
