# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench lab` as a user types it: interleaved rounds in a lab of its own, ratios, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import programs
import pytest
from click.testing import CliRunner
from patience import PATIENCE_S, carries_data, eventually
from programs import MRC

from mrc.bench.rounds import Rounds
from mrc.bench.suite import part_name
from mrc.cli import main

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]

# Keys of --json that must keep their meaning.
KEYS = {"goodput_gbps", "kpps", "cpu_seconds", "retransmitted_packets"}
LATENCY_KEYS = {"t_min_us", "t_typical_us", "t_avg_us", "p99_us", "p999_us"}


def bench_lab(*options: str, command: tuple[str, ...] = MRC, **environment: str) -> subprocess.Popen[str]:
    return programs.start(
        [*command, "bench", "lab", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def ended(process: subprocess.Popen[str], timeout_s: float = 5 * PATIENCE_S) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, out, err


def measured(*options: str, command: tuple[str, ...] = MRC) -> dict[str, Any]:
    code, out, err = ended(bench_lab(*options, "--json", command=command))
    assert code == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def need(program: str) -> None:
    if shutil.which(program) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"needs the program {program}")
        pytest.skip(f"needs the program {program}")


@pytest.fixture
def slow_iperf3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows whole seconds only: at full speed each of them takes both processors. Of two rates the last holds."""
    need("iperf3")
    shim = tmp_path / "iperf3"
    shim.write_text(f'#!/bin/sh\n[ "$1" = -s ] || set -- "$@" -b 200M\nexec {shutil.which("iperf3")} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a place of this test's own: others measure at the same time."""
    scratch = tempfile.mkdtemp(prefix="mrc-test-")
    monkeypatch.setenv("TMPDIR", scratch)
    yield
    left = os.listdir(scratch)
    shutil.rmtree(scratch)
    assert left == []


@pytest.mark.usefixtures("slow_iperf3")
def test_beside_udp_and_itself() -> None:
    document = measured("--seconds", "100ms", "--rounds", "3", "--baseline", "udp", "--compare", "qps=2,mtu=1024")
    for name in ("mrc", "udp", "mrc(qps=2,mtu=1024)"):
        assert document[name].keys() >= KEYS
        rounds = [each["goodput_gbps"] for each in document[name]["rounds"]]
        assert len(rounds) == 3
        assert document[name]["goodput_gbps"] == pytest.approx(median(rounds), abs=1e-3)
        assert document[name]["spread"]["goodput_gbps"] == pytest.approx([min(rounds), max(rounds)], abs=1e-3)
    assert document["udp"]["retransmitted_packets"] == 0
    assert [len(each["per_qp_gbps"]) for each in document["mrc(qps=2,mtu=1024)"]["rounds"]] == [2, 2, 2]

    assert document["ratio"].keys() == {"mrc/udp", "mrc(qps=2,mtu=1024)/mrc"}
    ours, theirs = ([each["goodput_gbps"] for each in document[name]["rounds"]] for name in ("mrc", "udp"))
    assert document["ratio"]["mrc/udp"] == pytest.approx(median(ours) / median(theirs), rel=1e-2)
    pairs = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    told = document["pair_ratio"]["mrc/udp"]
    assert [told["min"], told["median"], told["max"]] == pytest.approx(pairs, rel=1e-2)
    assert document["lab"]["planes"] == 2
    assert document["machine"]["cpus"] >= 1


@pytest.mark.usefixtures("slow_iperf3")
def test_the_table() -> None:
    code, out, err = ended(
        bench_lab("--seconds", "100ms", "--rounds", "1", "--planes", "1", "--spines", "2", "--baseline", "tcp")
    )
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("1 planes x 2 spines, writes of 1048576 bytes in packets of 4096, 1 rounds of 0.1 s")
    assert [line.split()[0] for line in lines if line[:3] in ("mrc", "tcp")] == ["mrc", "tcp", "mrc/tcp"]


@pytest.mark.usefixtures("slow_iperf3")
def test_every_baseline() -> None:
    need("cc")
    pytest.importorskip("aioquic")
    document = measured("--seconds", "100ms", "--rounds", "1", "--baseline", "bare,mptcp,aioquic")
    for name in ("bare", "mptcp", "aioquic"):
        assert document[name].keys() >= KEYS
        assert document[name]["goodput_gbps"] > 0
        assert document[name]["cpu_seconds"] > 0
        assert document["ratio"][f"mrc/{name}"] > 0


def test_latency_beside_udp() -> None:
    need("cc")
    document = measured("--latency", "--seconds", "100ms", "--rounds", "1", "--baseline", "udp")
    for name in ("mrc", "udp"):
        assert document[name].keys() >= LATENCY_KEYS
        assert 0 < document[name]["t_min_us"] <= document[name]["t_typical_us"] <= document[name]["p99_us"]
    typical = document["mrc"]["t_typical_us"] / document["udp"]["t_typical_us"]
    assert document["ratio"]["mrc/udp"] == pytest.approx(typical, rel=1e-3)
    assert document["ratio"].keys() == {"mrc/udp", "mrc/udp p99"}


# With a second to look on after a cut, in place of three.
WATCHES_BRIEFLY = "from mrc.bench import stall; stall.WATCHED_S = 1.0; from mrc.cli import main; main()"


@pytest.mark.usefixtures("slow_iperf3")
def test_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    need("ucx_perftest")
    options = ("--suite", "--seconds", "100ms", "--rounds", "1", "--planes", "2", "--spines", "2")
    document = measured(*options, "--baseline", "bare,tcp,ucx", command=(sys.executable, "-c", WATCHES_BRIEFLY))
    figures = {"goodput_gbps", "cpu_seconds_per_gb", "t_typical_us", "message_rate_mps", "lossy_goodput_gbps"}
    for name in ("mrc", "ucx"):
        assert all(document[name][figure] > 0 for figure in figures)
    assert {figure for figure in figures if document["tcp"][figure] is None} == {"t_typical_us", "message_rate_mps"}
    # MRC goes on in the other plane, TCP is pinned to what was cut.
    assert [document[name]["resumed"] for name in ("mrc", "tcp", "ucx")] == [True, False, False]
    assert document["mrc"]["stall_ms"] < document["tcp"]["stall_ms"]

    # The table of the same rounds.
    rounds = Rounds(
        {part_name(who, measure): told for who in ("mrc", "bare") for measure, told in document[who]["rounds"].items()}
    )
    monkeypatch.setattr("mrc.bench.suite.run_suite", lambda plan, tell: rounds)
    monkeypatch.setattr("mrc.cli.isolation.isolate", lambda: None)
    done = CliRunner().invoke(main, ["bench", "lab", *options, "--baseline", "bare"])
    assert done.exit_code == 0, done.stderr
    heading, ours, theirs = done.stdout.splitlines()[2:]
    assert [words.strip() for words in heading.split("  ") if words.strip()] == [
        "Gbit/s",
        "CPU s/GB",
        "half round trip [us]",
        "64-byte messages/s",
        "Gbit/s at 1% loss",
        "stall at a cut [ms]",
    ]
    assert ours.split()[0] == "mrc"
    assert "-" not in ours.split()
    # Nothing answers bare packets, and nothing would notice that they are gone.
    assert (theirs.split()[0], theirs.split().count("-")) == ("bare", 3)


def test_the_suite_chooses_sizes_itself() -> None:
    code, out, err = ended(bench_lab("--suite", "--size", "64"))
    assert (code, out) == (2, "")
    assert "leave out" in err


def test_loss_is_suffered_and_mended() -> None:
    document = measured("--seconds", "100ms", "--rounds", "2", "--compare", "loss=2%")
    assert all(each["retransmitted_packets"] > 0 for each in document["mrc(loss=2%)"]["rounds"])


def test_without_iperf3(tmp_path: Path) -> None:
    for program in ("unshare", "true"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    code, out, err = ended(bench_lab("--baseline", "udp", "--rounds", "1", PATH=str(tmp_path)))
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "install the package iperf3" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals) -> None:
    process = bench_lab("--seconds", "30s", "--json")
    eventually(lambda: carries_data(process.pid))
    # A terminal's Ctrl-C goes to the whole group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    code, out, err = ended(process)
    assert (code, out) == (128 + number, "")
    assert "interrupted" in err
