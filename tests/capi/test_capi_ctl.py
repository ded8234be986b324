# SPDX-License-Identifier: BSD-2-Clause
"""Controllers in C: what they set, what they may not set, and a path that one takes away under a transfer in a lab."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from c_programs import PROGRAMS, WITHIN_S, compiled, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import LIB
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = runs_programs
# Of each mode: what the controller calls it, the spines that carry nothing from then on, and how many lines it expects
# of what is refused.
MODES = {
    "srv6": ("srv6", ["p1s1"], 1),
    "srv6-srh": ("srv6", ["p1s1"], 1),
    "stev": ("stev", ["p1s1"], 1),
    # Switches choose: what leaves by port 2 is denied.
    "ecmp": ("udp", ["p1s0", "p1s1"], 4),
}
SPINES = ["p0s0", "p0s1", "p1s0", "p1s1"]


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


@pytest.mark.parametrize("mode", MODES)
def test_a_path_is_denied_under_a_transfer_in_a_lab(mode: str, tmp_path: Path) -> None:
    """Format and profile are made by one process, used by another, and a path of them is denied meanwhile."""
    named, denied, refused = MODES[mode]
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    controller = str(compiled(PROGRAMS / "ctl_denies.c", tmp_path))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | {"LD_LIBRARY_PATH": str(LIB)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctl-{os.getpid()}", Clos(planes=2, spines=2, mode=mode)) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **pipes))
            return started[-1]

        def sent_over() -> dict[str, int]:
            links = {each.name: each for each in lab.status().links}
            return {spine: int(links[f"p{spine[1]}l0-{spine}"].toward[spine].packets) for spine in SPINES}

        try:
            address = lab.ipv4_address("h1")
            assert address is not None
            control = start("h0", controller, named)
            assert control.stdin is not None
            assert control.stdout is not None
            assert control.stdout.readline() == "profile 1\n"
            receiver = start("h1", bench, "7001")
            sender = start("h0", bench, "7001", address, str(1 << 20), "100", "1")
            while sum(sent_over()[spine] for spine in denied) < 1000:
                assert sender.poll() is None
                time.sleep(0.02)
            control.stdin.write("deny\n")
            control.stdin.flush()
            assert control.stdout.readline() == "denied\n"
            before = sent_over()
            received, sent = (each.communicate(timeout=WITHIN_S) for each in (receiver, sender))
            after = sent_over()
            steered = control.communicate("end\n", timeout=WITHIN_S)
            assert (control.returncode, steered[0]) == (0, "")
            # What the program expects to be refused.
            assert [line.split(": ")[2] for line in steered[1].splitlines()] == ["EINVAL"] * refused + ["EBUSY"]
        finally:
            for each in started:
                each.kill()
    assert received == ("0 bytes wrong\n", "")
    assert sent[0].endswith("0 bytes wrong\n")
    # All sizes together are 54,000 packets, over the other paths from then on. What was on its way is not many.
    assert sum(after[spine] - before[spine] for spine in denied) < 100
    assert sum(after[spine] - before[spine] for spine in SPINES) > 5_000
