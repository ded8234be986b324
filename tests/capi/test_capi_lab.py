# SPDX-License-Identifier: BSD-2-Clause
"""C programs between the hosts of a lab: every mode, losses, a plane that is cut meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from c_programs import EXAMPLES, PROGRAMS, compiled, finished, installed, listens, runs_programs
from patience import eventually

from mrc.capi.build import LIB
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = runs_programs
MODES = ["srv6", "srv6-srh", "stev", "ecmp"]
H1 = "fd4d:5243::2"
LAST_HOP = "h1-p0l1"
PERFTEST_PORT = 18515
SPINES = ["p0s0", "p0s1", "p1s0", "p1s1"]


@contextmanager
def a_lab(mode: str) -> Iterator[Lab]:
    with Lab.up(f"capi-{os.getpid()}", Clos(planes=2, spines=2, mode=mode)) as lab:
        yield lab


def _start(lab: Lab, host: str, command: Sequence[str]) -> subprocess.Popen[str]:
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"}
    return lab.popen(
        host,
        command,
        env=own | {"LD_LIBRARY_PATH": str(LIB)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(*started: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    return [(each.returncode, each.stdout, each.stderr) for each in finished(*started)]


# 64 MiB or more in all: the plane that is left needs longer for it than the other one is cut. Messages of many packets
# in one mode, more writes than the send queue holds in the others.
SWEEPS = [("srv6", 1 << 20, 40), *((mode, 1 << 17, 256) for mode in MODES[1:])]


@pytest.mark.parametrize(("mode", "largest", "writes"), SWEEPS)
def test_a_sweep_is_exact_with_losses_trims_and_a_plane_that_is_cut(
    mode: str, largest: int, writes: int, tmp_path: Path
) -> None:
    program = str(compiled(EXAMPLES / "sweep.c", tmp_path, "-O2"))
    with a_lab(mode) as lab:
        lab.impair("p0l0-p0s0", loss=0.01)
        lab.impair(LAST_HOP, toward="h1", rate_bps=300_000_000, queue_bytes=200_000, trim_at_bytes=6_000)
        receiver = _start(lab, "h1", [program, "7001"])
        sender = _start(lab, "h0", [program, "7001", H1, str(largest), str(writes)])
        assert sender.stdout is not None
        lines = [sender.stdout.readline() for _ in range(12)]
        assert "2048 bytes" in lines[-1]
        lab.cut("p1s0", "h0-p1l0")
        time.sleep(1)
        lab.heal("p1s0", "h0-p1l0")
        received, sent = _finish(receiver, sender)
        last_hop = next(each for each in lab.status().links if each.name == LAST_HOP)
    assert last_hop.toward["h1"].trimmed_packets > 0
    assert received == (0, "", "")
    assert (sent[0], sent[2]) == (0, "")
    assert sent[1].endswith("\n0 bytes wrong\n")
    assert f"{largest} bytes" in sent[1]


@pytest.mark.parametrize("mode", MODES)
def test_an_unmodified_ib_write_bw_runs_between_hosts_with_losses(mode: str) -> None:
    command = [installed("ib_write_bw"), "-n", "300", "-q", "2"]
    with a_lab(mode) as lab:
        lab.impair("p0l0-p0s0", loss=0.01)
        server = _start(lab, "h1", command)
        eventually(lambda: lab.inside("h1", lambda: listens(PERFTEST_PORT)) or server.poll() is not None)
        # It knows IPv4 alone, and meets its peer over the hosts' own network.
        server_address = lab.ipv4_address("h1")
        assert server_address is not None
        client = _start(lab, "h0", [*command, server_address])
        time.sleep(1)
        lab.cut("h0-p1l0")
        ended = _finish(server, client)
    assert [status for status, _, _ in ended] == [0, 0], ended


@pytest.mark.parametrize("mode", MODES)
def test_a_benchmark_over_mrc_h_is_exact(mode: str, tmp_path: Path) -> None:
    program = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    with a_lab(mode) as lab:
        receiver = _start(lab, "h1", [program, "7001"])
        address = lab.ipv4_address("h1")
        assert address is not None
        received, sent = _finish(receiver, _start(lab, "h0", [program, "7001", address, "65536", "100"]))
    assert received == (0, "0 bytes wrong\n", "")
    assert (sent[0], sent[2]) == (0, "")
    assert sent[1].endswith("65536 bytes, 100 writes, 2 completions\n0 bytes wrong\n")


def test_a_qp_uses_the_ev_profile_that_it_names_and_that_the_host_has(tmp_path: Path) -> None:
    program = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text("ev_profiles:\n  5: {mode: explicit, evs: [p0s1, p1s0]}\n")
    load = [sys.executable, "-m", "mrc", "ctl", "profile", "load", str(profiles), "--endpoint", "host"]
    with a_lab("srv6") as lab:
        assert [status for status, _, _ in _finish(_start(lab, "h0", load))] == [0]
        address = lab.ipv4_address("h1")
        assert address is not None
        writes = [program, "7001", address, "65536", "20"]
        received, sent = _finish(_start(lab, "h1", [program, "7001"]), _start(lab, "h0", [*writes, "5"]))
        links = {each.name: each for each in lab.status().links}
        carried = {spine: links[f"p{spine[1]}l0-{spine}"].toward[spine].bytes for spine in SPINES}
        unknown = _finish(_start(lab, "h0", [*writes, "6"]))
    assert (received, sent[0]) == ((0, "0 bytes wrong\n", ""), 0)
    assert min(carried.pop(spine) for spine in ("p0s1", "p1s0")) > 1 << 20
    assert max(carried.values()) < 10_000
    assert unknown[0][:2] == (1, "")
    assert unknown[0][2].endswith("INIT: No such file or directory\n")
