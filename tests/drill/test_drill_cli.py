# SPDX-License-Identifier: BSD-2-Clause
"""`mrc drill` as a user types it: what it lists and refuses, a drill from end to end, and that it leaves nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import programs
import pytest
from click.testing import CliRunner, Result
from on_the_hosts import on_the_hosts
from ordinary_user import environment, ordinary, python
from patience import PATIENCE_S
from programs import MRC

from mrc.cli import main
from mrc.drill.catalogue import DRILLS

DRILL = [*MRC, "drill"]
NEEDS_ROOT = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]
PAPERS = {
    "nic-link-fail",
    "nic-link-flap",
    "fabric-link-fail",
    "fabric-link-flap",
    "leaf-fail",
    "spine-fail",
    "lossy-path",
    "balance",
    "incast",
    "startup",
}
ALL = PAPERS | {"training"}


def run(*arguments: str, prefix: tuple[str, ...] = (), timeout_s: float = 600.0) -> subprocess.CompletedProcess[str]:
    return programs.run([*prefix, *DRILL, *arguments], capture_output=True, text=True, timeout=timeout_s)


def said_by(*arguments: str) -> Result:
    """What the command does in this process."""
    return CliRunner().invoke(main, ["drill", *arguments])


def test_every_experiment_is_listed_with_what_it_expects() -> None:
    done = run("list")
    assert done.returncode == 0, done.stderr
    for name in ALL:
        assert name in done.stdout
    assert "least_share_kept at least 0.95" in done.stdout


def test_help_and_docs_say_what_the_seed_does_not_fix() -> None:
    """The order of EVs is drawn by each endpoint, and nobody can hand it a seed."""
    told = " ".join(said_by("run", "--help").stdout.split())
    assert "It does not decide in which order an endpoint uses its EVs" in told
    docs = " ".join((Path(__file__).parents[2] / "docs/drills.md").read_text().split())
    assert "It does not decide the order in which EVs are used" in docs


def test_the_list_as_json_is_one_document() -> None:
    done = said_by("list", "--json")
    listed = json.loads(done.stdout)["drills"]
    assert {each["name"] for each in listed} == ALL
    for each in listed:
        bounds = {one["figure"]: (one["bound"], one["limit"]) for one in each["expectations"]}
        if each["name"] in PAPERS:
            assert bounds["qp_errors"] == bounds["wrong_bytes"] == ("exactly", 0), each["name"]
        assert len(bounds) == len(each["expectations"]) == len(DRILLS[each["name"]].all_expectations)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "leaf-fial"), "no drill leaf-fial: there are nic-link-fail"),
        (("run",), "Missing argument"),
        (("run", "leaf-fail", "--seed", "-1"), "seed"),
        (("run", "leaf-fail", "--trim-to", "256"), "only these trim: incast"),
        (("run", "training", "--hosts", "3"), "training takes 2, 4, 6 or 8 hosts, half of them on each leaf, got 3"),
        (("run", "leaf-fail", "--hosts", "4"), "the number of hosts is for training"),
        (("run", "incast", "--trim-to", "63"), "a whole number from 64 to 65535, got 63"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc.cli.isolation.isolate", lambda: None)
    done = said_by(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_an_ordinary_user_is_in_namespaces_before_numpy_starts_threads() -> None:
    """Who has several cannot make a user namespace."""
    command = [python(), "-m", "mrc", "drill", "run", "no-such-drill"]
    options: dict[str, Any] = {"env": environment(), "cwd": "/", "timeout": PATIENCE_S, **ordinary()}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert (done.returncode, "no drill no-such-drill" in done.stderr) == (2, True), done.stderr


class TestLive:
    pytestmark = NEEDS_ROOT

    def test_a_drill_from_end_to_end(self, tmp_path: Path) -> None:
        out = tmp_path / "drills"
        for _ in range(5):
            done = run("run", "startup", "--json", "--out", str(out), "--seed", "3")
            # On a machine that keeps a host waiting a drill may fail, and says so: once more then.
            if json.loads(done.stdout)["failed"] == 0:
                break
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert (document["passed"], document["failed"], document["unsupported"]) == (1, 0, 0)
        (drill,) = document["drills"]
        assert (drill["name"], drill["verdict"], drill["seed"]) == ("startup", "passed", 3)
        assert json.loads((out / "startup.json").read_text()) == drill
        assert [check["verdict"] for check in drill["checks"]] == ["passed"] * len(DRILLS["startup"].all_expectations)
        # Four ports of 30 Mbit/s bring that, less the headers: MRC has 40 bytes with the ICRC, UDP 8, IPv6 twice 40,
        # Ethernet 14.
        assert 0.85 < drill["figures"]["goodput_whole_mbps"] / (4 * 30 * 4096 / (4096 + 40 + 8 + 80 + 14)) < 1.03
        cuts = [each for each in drill["happenings"] if each["what"] == "cut"]
        assert sorted(each["target"][:4] for each in cuts) == ["p0l0", "p1l0", "p2l0", "p3l0"]
        assert len(drill["series"]["goodput_mbps"]["a tenth dead"]) > 50
        if importlib.util.find_spec("matplotlib") is not None:
            assert drill["plot"] == str(out / "startup.svg")
            assert (out / "startup.svg").read_text().count("<path") > 5
        assert "startup: a tenth of the paths" in done.stderr

    @pytest.mark.skipif(shutil.which("unshare") is None, reason="needs the program unshare")
    def test_without_ebpf_a_drill_that_needs_it_is_neither_passed_nor_failed(self) -> None:
        done = run("run", "incast", "--json", prefix=("unshare", "--user", "--map-root-user"))
        document = json.loads(done.stdout)
        assert (document["passed"], document["failed"], document["unsupported"]) == (0, 0, 1)
        assert "eBPF" in document["drills"][0]["reason"]
        assert done.returncode == 1  # nothing was judged

    def test_interrupted_it_leaves_no_process(self) -> None:
        started = programs.start(
            [*DRILL, "run", "leaf-fail"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while len(on_the_hosts(started.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        hosts = on_the_hosts(started.pid)
        assert len(hosts) == 2, "its hosts never started"
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 130
        assert out == ""
        assert err.splitlines()[-1] == "interrupted; the lab is taken down"
        assert "Traceback" not in err
        while any(Path(f"/proc/{pid}").exists() for pid in hosts) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in hosts if Path(f"/proc/{pid}").exists()]
