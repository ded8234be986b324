"""`mrc demo` as a user types it: a fabric of its own, a verdict, a capture, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        (os.geteuid() != 0 or shutil.which("unshare") is None) and os.environ.get("CI") != "true",
        reason="needs root and the program unshare",
    ),
]

SIZE = 8 << 20
KEYS = {
    "bytes",
    "seconds",
    "goodput_gbps",
    "sha256_match",
    "retransmitted_packets",
    "spurious_retransmissions",
    "paths",
    "failovers",
}


def demo(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mrc", "demo", "--size", "8MiB", *options],
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
    """What a demo could leave: labs, namespaces, its scratch directory."""
    places = {place: Path(place) for place in ("/run/mrc", "/run/netns")}
    found = {place: sorted(os.listdir(path)) if path.exists() else [] for place, path in places.items()}
    # Other labs may come and go meanwhile; the demo's are called so.
    found = {place: [name for name in names if name.startswith("demo")] for place, names in found.items()}
    return {**found, "/tmp": [name for name in os.listdir("/tmp") if name.startswith("mrc-demo-")]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = left_outside()
    yield
    assert left_outside() == before


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=60)
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
    assert document["sha256_match"] is True
    assert document["failovers"] == []
    paths = document["paths"]
    assert {(path["plane"], path["spine"]) for path in paths} == {(p, s) for p in (0, 1) for s in range(4)}
    assert all(path.keys() >= {"ev", "plane", "spine", "packets", "lost", "state"} for path in paths)
    assert sum(path["packets"] for path in paths) >= SIZE // 4096

    # Scapy, with the project's layers, is the one that reads the capture.
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapReader

    from mrc.layers import BTH
    from mrc.layers.icrc import check_icrc

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
    pcap, events = tmp_path / "demo.pcap", tmp_path / "demo.events"
    process = demo("--loss", "0%", "--cut-after", "20%", "--pcap", str(pcap), "--events", str(events), "--json")
    out, err = ended(process)
    assert process.returncode == 0, err
    document = json.loads(out)
    (failover,) = document["failovers"]
    assert failover.keys() == {"link", "cut_at_s", "last_use_after_s"}
    assert failover["link"] == "p0l0-p0s1"
    assert 0 < failover["cut_at_s"] < document["seconds"] + 1
    assert failover["last_use_after_s"] < 1

    dissected = subprocess.run(
        [sys.executable, "-m", "mrc", "dissect", str(pcap), "--jsonl"], capture_output=True, text=True, check=True
    )
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
    argv = [sys.executable, "-m", "mrc", "analyze", str(pcap), "--events", str(events), "--json"]
    analysed = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    (cut,) = (each for each in analysed["fabric_events"]["events"] if each["event"] == "cut")
    assert cut["links"] == ["p0l0-p0s1"]
    (direction,) = (each for qp in analysed["qps"] for each in qp["directions"] if each["packets"])
    (dead,) = (path for path in direction["paths"] if path["ev"] == 1)
    assert dead["last_use_s"] - cut["time_s"] == pytest.approx(failover["last_use_after_s"], abs=0.1)
    assert cut["time_s"] - direction["first_s"] == pytest.approx(failover["cut_at_s"], abs=0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals) -> None:
    process = demo("--size", "256MiB", "--json")
    time.sleep(2.5)
    # A terminal's Ctrl-C goes to the whole group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = ended(process)
    assert process.returncode == 1, (out, err)
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted" in err


@pytest.mark.parametrize(
    "options", [["--cut-after", "30"], ["--loss", "101%"], ["--size", "x"], ["--planes", "0"], ["--spines", "257"]]
)
def test_usage_errors_end_with_2(options: list[str]) -> None:
    process = demo(*options)
    _, err = ended(process)
    assert process.returncode == 2, err
    assert "Traceback" not in err
