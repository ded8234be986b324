# SPDX-License-Identifier: BSD-2-Clause
"""`mrc demo` as a user types it: a fabric of its own, a verdict, a capture, and nothing left behind."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import programs
import pytest
from click.testing import CliRunner
from patience import PATIENCE_S, carries_data, eventually
from programs import MRC

from mrc import CORE, core
from mrc.cli import main

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]

SIZE = 8 << 20
KEYS = {
    "bytes",
    "seconds",
    "data_seconds",
    "goodput_gbps",
    "sums_agree",
    "retransmitted_packets",
    "spurious_retransmissions",
    "duplicates_received",
    "paths",
    "failovers",
}


def demo(*options: str) -> subprocess.Popen[str]:
    return programs.start(
        [*MRC, "demo", "--size", "8MiB", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of_session(leader: int) -> list[int]:
    """Everything the demo started and did not end: its session's processes (proc(5), stat, field 6)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def left_outside() -> dict[str, list[str]]:
    """What a demo could leave: labs, namespaces."""
    places = {place: Path(place) for place in ("/run/mrc", "/run/netns")}
    found = {place: sorted(os.listdir(path)) if path.exists() else [] for place, path in places.items()}
    # Other labs may come and go meanwhile; the demo's are called so.
    return {place: [name for name in names if name.startswith("demo")] for place, names in found.items()}


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its scratch directory is in a place of this test's own: others demonstrate at the same time."""
    before, scratch = left_outside(), tempfile.mkdtemp(prefix="mrc-test-")
    monkeypatch.setenv("TMPDIR", scratch)
    yield
    left = os.listdir(scratch)
    shutil.rmtree(scratch)
    assert left == []
    assert left_outside() == before


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=5 * PATIENCE_S)
    finally:
        process.kill()
    assert processes_of_session(process.pid) == []
    return out, err


def test_undisturbed_with_a_capture(tmp_path: Path) -> None:
    pcap = tmp_path / "demo.pcap"
    process = demo("--loss", "0%", "--cut-after", "100%", "--json", "--pcap", str(pcap))
    out, err = ended(process)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document.keys() >= KEYS
    assert document["bytes"] == SIZE
    assert document["sums_agree"] is True
    assert document["failovers"] == []
    assert 0 < document["data_seconds"] <= document["seconds"]
    assert document["goodput_gbps"] == pytest.approx(SIZE * 8 / document["data_seconds"] / 1e9, rel=0.01)
    paths = document["paths"]
    assert {(path["plane"], path["spine"]) for path in paths} == {(p, s) for p in (0, 1) for s in range(4)}
    assert all(path.keys() >= {"ev", "plane", "spine", "packets", "lost", "state"} for path in paths)
    assert sum(path["packets"] for path in paths) >= SIZE // 4096

    # Scapy, with the project's layers, is the one that reads the capture.
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapReader

    from mrc.layers import BTH, bind_to_udp
    from mrc.layers.icrc import check_icrc

    bind_to_udp()

    checked = 0
    with RawPcapReader(str(pcap)) as reader:
        for number, (data, _) in enumerate(reader):
            # Scapy takes its time over large packets.
            packet = Ether(data) if number % 16 == 0 else None
            if packet is not None and packet.haslayer(BTH):
                assert check_icrc(packet) is True
                checked += 1
    assert checked >= SIZE // 4096 // 16


def test_the_projects_dissection_of_the_capture_agrees(tmp_path: Path) -> None:
    for number in range(10):
        directory = tmp_path / str(number)
        directory.mkdir()
        last_use_s, apart_s = demonstrated(directory)
        # A machine that stands still meanwhile shows nothing of either: once more then.
        if last_use_s < 1 and apart_s < 0.1:
            return
    pytest.fail(f"last use {last_use_s} s after the cut, times {apart_s} s apart")


def demonstrated(directory: Path) -> tuple[float, float]:
    """How long the cut path was used on, and how far apart the demo's times are from those of its capture and log."""
    pcap, events = directory / "demo.pcap", directory / "demo.events"
    process = demo("--loss", "0%", "--cut-after", "20%", "--pcap", str(pcap), "--events", str(events), "--json")
    out, err = ended(process)
    if re.search(r"^Error: plane 0 spine 1 got data \d+ ms after it was cut", err, re.MULTILINE):
        # The verdict is right; its limit is held in test_demo_verdict.py.
        return math.inf, math.inf
    assert process.returncode == 0, err
    document = json.loads(out)
    (failover,) = document["failovers"]
    assert failover.keys() == {"link", "cut_at_s", "last_use_after_s"}
    assert failover["link"] == "p0l0-p0s1"
    assert 0 < failover["cut_at_s"] < document["seconds"] + 1

    dissected = programs.run([*MRC, "dissect", pcap, "--jsonl"], capture_output=True, text=True, check=True)
    writes = rtx = 0
    for line in dissected.stdout.splitlines():
        packet = json.loads(line)
        assert packet["malformed"] is None
        layers = {layer["layer"]: layer.get("fields") for layer in packet["layers"]}
        if "bth" not in layers:
            continue
        assert packet["icrc_ok"] is True
        if 0xC6 <= layers["bth"]["opcode"] <= 0xCA:
            writes += 1
            rtx += layers["bth"]["rtx"]
    # What the sender says it sent twice is what its ports show, but for what a full queue refused.
    assert rtx == pytest.approx(document["retransmitted_packets"], abs=2)
    assert writes == pytest.approx(sum(path["packets"] for path in document["paths"]), abs=2)

    # The lab's log has the cut at the moment that the packets show: the demo counts from its first packet, the analysis
    # from the first captured. A packet is captured a little after the sender has put it on a path.
    argv = [*MRC, "analyze", str(pcap), "--events", str(events), "--json"]
    analysed = json.loads(programs.run(argv, capture_output=True, text=True, check=True).stdout)
    (cut,) = (each for each in analysed["fabric_events"]["events"] if each["event"] == "cut")
    assert cut["links"] == ["p0l0-p0s1"]
    (direction,) = (each for qp in analysed["qps"] for each in qp["directions"] if each["packets"])
    (dead,) = (path for path in direction["paths"] if path["ev"] == 1)
    last_use_s = (dead["last_use_ns"] - cut["time_ns"]) / 1e9 - failover["last_use_after_s"]
    cut_at_s = (cut["time_ns"] - direction["first_ns"]) / 1e9 - failover["cut_at_s"]
    return failover["last_use_after_s"], max(abs(last_use_s), abs(cut_at_s))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals) -> None:
    process = demo("--size", "256MiB", "--json")
    eventually(lambda: carries_data(process.pid))
    # A terminal's Ctrl-C goes to the whole group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = ended(process)
    assert process.returncode == 128 + number, (out, err)
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--cut-after", "30"],
        ["--cut-after", "0%"],
        ["--loss", "101%"],
        ["--size", "x"],
        ["--planes", "0"],
        ["--spines", "257"],
    ],
)
def test_usage_errors_end_with_2(options: list[str]) -> None:
    done = CliRunner().invoke(main, ["demo", *options])
    assert done.exit_code == 2, done.stderr
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(("option", "file"), [("--pcap", "x"), ("--events", "x"), ("--trace", "x.sender")])
def test_a_file_that_cannot_be_written_is_named_before_anything_is_built(
    option: str, file: str, tmp_path: Path
) -> None:
    process = demo(option, str(tmp_path / "missing" / "x"))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    # No line about a fabric before it.
    assert err == f"Error: {tmp_path / 'missing' / file}: cannot be written: No such file or directory\n"


@pytest.mark.parametrize("size", ["1TiB", "99999999999TiB"])
def test_a_file_that_has_no_room_is_refused_before_anything_is_built(size: str, tmp_path: Path) -> None:
    """It would take all that the disk has left before it fails."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=1m none "$1" && TMPDIR=$1 exec "$2" -m mrc demo --size "$3"'
    argv = [*mounted, script, "sh", str(small), sys.executable, size]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"{small} has" in line
    assert "send less with --size" in line


@pytest.mark.parametrize("kind", sorted({core.INTERPRETED, CORE.kind}))
def test_it_says_that_the_datapath_runs_interpreted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(core.VARIABLE, kind)
    _, err = ended(demo("--size", "1", "--loss", "0%"))
    says = "the datapath runs interpreted and is slow (MRC_CORE=python): unset MRC_CORE"
    assert (says in err.splitlines()) is (kind == core.INTERPRETED)
    assert ("interpreted" in err) is (kind == core.INTERPRETED)


def test_a_transfer_that_is_over_before_the_cut_fails_and_says_what_to_do(tmp_path: Path) -> None:
    process = demo("--size", "1", "--loss", "0%", "--json", "--events", str(tmp_path / "events"))
    out, err = process.communicate(timeout=5 * PATIENCE_S)
    assert process.returncode == 1
    document = json.loads(out)
    assert document["faults"] == ["the transfer was over before the cut: send more with --size"]
    assert document["failovers"] == []
    assert document["sums_agree"] is True
    assert "cut" not in (tmp_path / "events").read_text()
    assert err.splitlines()[-1] == "Error: the transfer was over before the cut: send more with --size"


def test_it_ends_with_what_to_try_next_and_all_of_that_exists() -> None:
    process = demo("--loss", "0%", "--cut-after", "100%")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    _, found, suggested = out.partition("\nWhat to try next:\n")
    assert found
    lines = suggested.splitlines()
    assert len(lines) >= 4
    named = [part for line in lines for part in re.findall(r"mrc(?: [\w%.-]+)+", line.replace("`", "  "))]
    assert len(named) > len(lines)
    for command in named:
        context = click.Context(main, info_name="mrc")
        words = command.split()[1:]
        while words and not words[0].startswith("-") and isinstance(context.command, click.Group):
            below = context.command.get_command(context, words[0])
            assert below is not None, command
            context = click.Context(below, context, info_name=words.pop(0))
        known = {opt for param in context.command.get_params(context) for opt in param.opts}
        assert {word for word in words if word.startswith("-")} <= known, command
