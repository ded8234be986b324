# SPDX-License-Identifier: BSD-2-Clause
"""Controllers in C: what they set, what they may not set, and a path that one takes away under a transfer in a lab."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from c_programs import PROGRAMS, WITHIN_S, compiled, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import LIB
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = runs_programs
DENIED_SPINE = "p1s1"


def test_a_controller_that_checks_by_itself(inside: Inside, tmp_path: Path, directory: str) -> None:
    """It prints what it finds wrong and ends with 1 then: see the source."""
    done = run_one(inside, str(compiled(PROGRAMS / "ctl_calls.c", tmp_path)), MRC_CONTROL_DIR=directory)
    assert (done.returncode, done.stdout) == (0, ""), done


def test_events_and_operations_in_one_process(inside: Inside, tmp_path: Path, directory: str) -> None:
    """Order, counts of what was dropped, channels, events of 1.0.0, operations without an answer, all refusals."""
    done = run_one(inside, str(compiled(PROGRAMS / "ctl_events.c", tmp_path)), MRC_CONTROL_DIR=directory)
    assert (done.returncode, done.stdout) == (0, ""), done


def test_without_cap_net_admin_a_controller_changes_nothing(inside: Inside, tmp_path: Path, directory: str) -> None:
    """EPERM for each change; queries are answered."""
    program = str(compiled(PROGRAMS / "ctl_unprivileged.c", tmp_path))
    done = run_one(inside, "setpriv", "--bounding-set=-net_admin", program, MRC_CONTROL_DIR=directory)
    assert (done.returncode, done.stdout) == (0, ""), done


def test_a_path_is_denied_under_a_transfer_in_a_lab(tmp_path: Path) -> None:
    """Format and profile are made by one process, used by another, and a path of them is denied meanwhile."""
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    controller = str(compiled(PROGRAMS / "ctl_denies.c", tmp_path))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | {"LD_LIBRARY_PATH": str(LIB)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctl-{os.getpid()}", Clos(planes=2, spines=2, mode="srv6")) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **pipes))
            return started[-1]

        def sent_over(spine: str) -> int:
            link = next(each for each in lab.status().links if each.name == f"p{spine[1]}l0-{spine}")
            return link.toward[spine].packets

        try:
            address = lab.ipv4_address("h1")
            assert address is not None
            control = start("h0", controller)
            assert control.stdin is not None
            assert control.stdout is not None
            assert control.stdout.readline() == "profile 1\n"
            receiver = start("h1", bench, "7001")
            sender = start("h0", bench, "7001", address, str(1 << 20), "300", "1")
            while sent_over(DENIED_SPINE) < 1000:
                assert sender.poll() is None
                time.sleep(0.02)
            control.stdin.write("deny\n")
            control.stdin.flush()
            assert control.stdout.readline() == "denied\n"
            before = {spine: sent_over(spine) for spine in (DENIED_SPINE, "p1s0")}
            received, sent = (each.communicate(timeout=WITHIN_S) for each in (receiver, sender))
            after = {spine: sent_over(spine) for spine in before}
            steered = control.communicate("end\n", timeout=WITHIN_S)
            assert (control.returncode, steered[0]) == (0, "")
            # What the program expects to be refused.
            assert [line.split(": ")[2] for line in steered[1].splitlines()] == ["EINVAL", "EBUSY"]
        finally:
            for each in started:
                each.kill()
    assert received == ("0 bytes wrong\n", "")
    assert sent[0].endswith("0 bytes wrong\n")
    # All sizes together are 160,000 packets, over three paths from then on. What was on its way is not many.
    assert after[DENIED_SPINE] - before[DENIED_SPINE] < 100
    assert after["p1s0"] - before["p1s0"] > 5_000
