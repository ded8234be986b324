# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench allreduce` and its siblings as a user types them: help, refusals, and tiny runs in a lab of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import programs
import pytest
from click.testing import CliRunner
from on_the_hosts import on_the_hosts
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.cli import main
from mrc.cli.bench_collectives import COMMANDS

in_a_lab = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]


def lab_test(function: Any) -> Any:
    for mark in in_a_lab:
        function = mark(function)
    return function


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    done = CliRunner().invoke(main, ["bench", name, "--help"])
    assert done.exit_code == 0
    assert f"mrc bench {name} -b 8 -e 128M -f 2" in done.output
    assert ("--op" in done.output) == (name in ("allreduce", "reducescatter", "reduce"))
    assert ("--root" in done.output) == (name in ("broadcast", "reduce"))
    assert name in CliRunner().invoke(main, ["bench", "--help"]).output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-b 2M -e 1M", "--minbytes (2097152) is above --maxbytes (1048576)"),
        ("-b 2", "--minbytes must be 4..4294967296 for allreduce of float at 2 ranks"),
        ("--ranks 2 --hosts 4", "--ranks (2) must be at least --hosts (4)"),
        ("-o avg -d int32", "--op avg is for half, float, double, not for int32"),
        ("--baseline nccl", "'nccl' is not one of gloo, gloo-mptcp, write"),
        ("-d int16", "'int16' is not one of"),
        ("--link-rate fast", "'fast' is not a rate"),
        ("-f 1", "1 is not in the range"),
        ("-b 64Q", "'64Q' is not a size"),
    ],
)
def test_usage(options: str, said: str) -> None:
    done = CliRunner().invoke(main, ["bench", "allreduce", *options.split()])
    assert done.exit_code == 2
    assert said in done.stderr


def bench(*arguments: str, command: tuple[str, ...] = MRC) -> subprocess.Popen[str]:
    return programs.start(
        [*command, "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def measured(*arguments: str, command: tuple[str, ...] = MRC) -> dict[str, Any]:
    process = bench(*arguments, "--json", command=command)
    try:
        out, err = process.communicate(timeout=5 * PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    scratch = tempfile.mkdtemp(prefix="mrc-test-")
    monkeypatch.setenv("TMPDIR", scratch)
    yield
    left = os.listdir(scratch)
    shutil.rmtree(scratch)
    assert left == []


TINY = ("-n", "2", "-w", "1", "-c", "2", "--rounds", "1", "--planes", "2", "--spines", "2")


@lab_test
@pytest.mark.parametrize("name", COMMANDS)
def test_each_operation(name: str) -> None:
    document = measured(name, "-b", "1K", "-e", "64K", "-f", "64", *TINY)
    assert document["operation"] == name
    rows = document["subjects"]["mrc"]["sizes"]
    assert [row["size_bytes"] for row in rows if row["place"] == rows[0]["place"]] == [1024, 65536]
    for row in rows:
        assert row["wrong"] == 0
        assert row["ranks_identical"] in (True, None)
        assert row["time_us"] > 0
        assert row["cpu_seconds"] > 0
    assert document["faults"] == []


# With half a second of writes, in place of two.
WRITES_BRIEFLY = (
    "from mrc.bench.collectives import subjects; subjects._WRITE_SECONDS = 0.5; from mrc.cli import main; main()"
)


@lab_test
def test_more_ranks_than_hosts_beside_writes_over_slow_links() -> None:
    command = (sys.executable, "-c", WRITES_BRIEFLY)
    options = ("--ranks", "4", "--hosts", "2", "--link-rate", "200mbit", "--baseline", "write-both-ways")
    document = measured(
        "allreduce", "-b", "256K", "-e", "256K", "-d", "int64", "-o", "max", *options, *TINY, command=command
    )
    assert document["lab"]["places"] == ["h0", "h0", "h1", "h1"]
    assert document["lab"]["link_rate_bps"] == 200_000_000
    row = document["subjects"]["mrc"]["sizes"][0]
    assert (row["count"], row["wrong"], row["ranks_identical"]) == (32768, 0, True)
    # Two links of 25 MB/s each way carry it, headers and all.
    assert 0 < document["subjects"]["write-both-ways"]["sizes"][0]["busbw_gbytes_per_s"] < 0.05
    assert document["pair_ratio"]["mrc/write-both-ways"][0]["busbw_gbytes_per_s"]["median"] > 0


@lab_test
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_beside_gloo() -> None:
    document = measured("allreduce", "-b", "1K", "-e", "64K", "-f", "64", "--baseline", "gloo,gloo-mptcp", *TINY)
    for name in ("mrc", "gloo", "gloo-mptcp"):
        assert [row["wrong"] for row in document["subjects"][name]["sizes"]] == [0, 0]
    assert document["pair_ratio"].keys() == {"mrc/gloo", "mrc/gloo-mptcp"}


@lab_test
def test_the_table() -> None:
    process = bench("broadcast", "-r", "1", "-b", "4K", "-e", "4K", *TINY)
    out, err = process.communicate(timeout=5 * PATIENCE_S)
    assert process.returncode == 0, err
    lines = out.splitlines()
    assert lines[0] == "# broadcast: 2 ranks on 2 hosts, 2 planes x 2 spines"
    row = next(line.split() for line in lines if not line.startswith("#"))
    assert row[:5] == ["4096", "1024", "float", "none", "1"]
    assert "# Out of bounds values : 0 OK" in lines


@lab_test
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals) -> None:
    process = bench("allreduce", "-b", "1K", "-e", "1K", "-n", "1000000")
    try:
        assert eventually(lambda: len(on_the_hosts(process.pid)) == 2)
        ranks = on_the_hosts(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, out) == (128 + number, "")
    assert err == "interrupted; the lab is taken down\n"
    assert eventually(lambda: not any(os.path.exists(f"/proc/{rank}") for rank in ranks))
