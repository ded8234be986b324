# SPDX-License-Identifier: BSD-2-Clause
"""The walk of docs/operations.md in small: a lossy cable is found from outside, denied under a transfer, and back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import Transfers, eventually, slowed
from patience import PATIENCE_S
from programs import MRC

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.net.control.client import ControlClient, endpoints

pytestmark = pytest.mark.root

CABLE, UP, EV = "p1l0-p1s1", "p1s1", 0x01000001


@pytest.fixture(scope="module")
def lab(need_root: None) -> Iterator[Lab]:
    with Lab.up(f"live-{os.getpid()}-ops", slowed(20_000_000, Clos(planes=2, leaves=3, spines=2))) as built:
        yield built


@pytest.fixture(autouse=True)
def control_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Control sockets of these processes alone, so that nobody else's endpoint is steered."""
    path = Path(tempfile.mkdtemp(prefix="mrc-live-", dir="/tmp"))
    monkeypatch.setenv("MRC_CONTROL_DIR", str(path))
    yield
    shutil.rmtree(path)


@pytest.fixture
def transfers(lab: Lab, tmp_path: Path) -> Iterator[Transfers]:
    made = Transfers(lab, tmp_path)
    yield made
    made.close()


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of the operator's, outside the lab."""
    return programs.run([*MRC, *map(str, argv)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def mrc(*argv: str | Path) -> str:
    """What it printed."""
    done = run(*argv)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def outside(*argv: str | Path) -> subprocess.Popen[str]:
    words = [*MRC, *map(str, argv)]
    return programs.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)


def client_of(name: str) -> ControlClient:
    found = eventually(lambda: [each for each in endpoints().found if each.host == name])
    return ControlClient(found[0].path)


def ev_rows(client: ControlClient) -> dict[int, dict[str, Any]]:
    return {row["ev"]: row for row in client.request("evs")}


def moved(client: ControlClient, before: dict[int, dict[str, Any]]) -> dict[int, int]:
    """Packets on each EV since."""
    return {ev: row["packets"] - before[ev]["packets"] for ev, row in ev_rows(client).items()}


def bytes_up(lab: Lab) -> int:
    """What has come up the cable, by the kernel's own counters at the spine."""
    (cable,) = [link for link in lab.status().links if link.name == CABLE]
    return cable.toward[UP].bytes


def named(lab: Lab, deny_list: Path) -> str:
    """What `mrc map show` says once it names the cable, with the deny list it wrote."""

    def look() -> str | None:
        """None, too, while the map is older than five seconds, as it says itself where a machine keeps it waiting."""
        done = run("map", "show", "--name", lab.name, "--deny-list", deny_list)
        faults = [line for line in done.stdout.splitlines() if re.search(r" loses [\d.]+ %", line)]
        assert all(line.startswith(f"{CABLE} ") for line in faults), done.stdout
        return faults[0] if faults and done.returncode == 0 else None

    return str(eventually(look))


def test_a_lossy_cable_is_named_denied_under_a_transfer_and_carries_nothing_until_it_is_allowed(
    lab: Lab, transfers: Transfers, tmp_path: Path
) -> None:
    mrc("lab", "impair", "--name", lab.name, CABLE, "--loss", "5%")
    deny_list = tmp_path / "deny.json"
    serve = outside("map", "serve", "--name", lab.name, "--listen", "127.0.0.1:0")
    try:
        # `mrc map show` reads the history, which begins a moment after the process.
        eventually(lambda: run("map", "show", "--name", lab.name).returncode == 0)
        agents = outside("map", "agent", "--all", "--name", lab.name, "--rate", "300")
        try:
            said = named(lab, deny_list)
        finally:
            agents.terminate()
            agents.communicate(timeout=PATIENCE_S)
    finally:
        serve.terminate()
        serve.communicate(timeout=PATIENCE_S)
    interval = re.search(r"loses [\d.]+ % \(([\d.]+) to ([\d.]+)\)", said)
    assert interval, said
    assert float(interval[1]) < 7
    assert float(interval[2]) > 3
    listed = json.loads(deny_list.read_text())
    assert listed["fabric"] == lab.name
    # Data of h0, the one host on leaf 0, goes up that cable.
    assert ("h0", 1, f"{EV:#010x}") in [(each.get("endpoint"), each["plane"], each["ev"]) for each in listed["deny"]]

    transfers.in_time(partial(denied_and_allowed, lab, transfers, deny_list), 4, 12, 40, 120)


def denied_and_allowed(lab: Lab, transfers: Transfers, deny_list: Path, seconds: int) -> None:
    """Under a writer that goes on for so long, on a lossy cable."""
    mrc("lab", "impair", "--name", lab.name, CABLE, "--loss", "5%")
    server = transfers.start("h1", [*MRC, "bench", "serve"])
    assert server.process.stdout is not None
    ticket = server.process.stdout.readline().strip()
    options = ("--size", "64KiB", "--depth", "1", "--seconds", f"{seconds}s", "--json")
    writer = transfers.start("h0", [*MRC, "bench", "write", ticket, *options])
    here = client_of("h0")
    eventually(lambda: EV in (rows := ev_rows(here)) and rows[EV]["lost"] > 0)

    said = mrc("ctl", "ev", "deny", "--from", deny_list)
    assert re.search(rf"{lab.name}/h0\): 1 EVs denied", said), said
    rows, up = ev_rows(here), bytes_up(lab)
    assert rows[EV]["state"] == "denied"
    eventually(lambda: all(moved(here, rows)[ev] >= 100 for ev in rows if ev != EV))
    assert moved(here, rows)[EV] == 0
    # Acknowledgements and neighbour discovery may pass still; a data packet of path MTU 4096 is more than all of them.
    assert bytes_up(lab) - up < 4096

    mrc("lab", "impair", "--name", lab.name, CABLE, "--clear")
    said = mrc("ctl", "ev", "allow", "--from", deny_list)
    assert re.search(rf"{lab.name}/h0\): 1 EVs allowed", said), said
    eventually(lambda: moved(here, rows)[EV] > 0)

    # The writer compares what lies at the server in the end with what it wrote.
    here.close()
    writer.end().succeeded()
