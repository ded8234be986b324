# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab shell` as a user types it: namespaces and a /run of its own around a command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import programs
import pytest
from ordinary_user import environment, ordinary, python
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import lab_names


def isolation_works() -> bool:
    return subprocess.run([*MRC, "lab", "shell", "--", "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(os.environ.get("CI") != "true" and not isolation_works(), reason="needs namespaces")


def shell(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*MRC, "lab", "shell", *argv]
    return programs.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)


def test_it_is_the_command() -> None:
    argv = [*MRC, "lab", "shell", "--", "sh", "-c", "cat; echo err >&2; exit 7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S, input="from stdin\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "from stdin\n", "err\n")


def test_options_behind_the_command_are_its_own() -> None:
    assert shell("echo", "--help", "--", "-x").stdout == "--help -- -x\n"
    assert shell("--", "echo", "--", "x").stdout == "-- x\n"


def test_without_a_command_it_is_a_shell() -> None:
    with tempfile.TemporaryFile() as script:
        script.write(b"echo $((6 * 7))\n")
        script.seek(0)
        done = shell(stdin=script, env={**os.environ, "SHELL": "/bin/sh"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_what_cannot_be_started_is_one_line() -> None:
    done = shell("--", "/no/such/program")
    assert done.returncode == 1
    assert done.stderr == "Error: cannot start '/no/such/program': No such file or directory\n"


def test_a_network_and_a_run_of_its_own() -> None:
    script = "ls -A /run; cat /proc/net/dev /proc/net/if_inet6; readlink /proc/self/ns/net /proc/self/ns/mnt"
    done = shell("--", "sh", "-c", script)
    lines = done.stdout.splitlines()
    # Nothing in /run; no interface but lo, and that is up: it has its address.
    assert [line.split(":")[0].strip() for line in lines[2:-3]] == ["lo"]
    assert lines[-3].split()[0] == "00000000000000000000000000000001"
    assert lines[-2] != os.readlink("/proc/self/ns/net")
    assert lines[-1] != os.readlink("/proc/self/ns/mnt")


@pytest.mark.parametrize("user", [{}, ordinary()], ids=["whoever runs this", "ordinary"])
def test_it_needs_no_other_program(user: dict[str, Any]) -> None:
    interpreter = python() if user else sys.executable
    program = "import os; print(os.geteuid())"
    argv = [interpreter, "-m", "mrc", "lab", "shell", "--", interpreter, "-c", program]
    bare = {**environment(), "PATH": "/nowhere"}
    done = subprocess.run(argv, env=bare, capture_output=True, text=True, check=False, timeout=PATIENCE_S, **user)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_is_mounted_inside_is_not_seen_where_mounts_are_shared() -> None:
    """As they are wherever systemd runs: its /run would lie over everybody's."""
    script = 'mount --make-rshared / && cat /proc/self/mounts && echo "--" && "$@" && cat /proc/self/mounts'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *MRC, "lab", "shell", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    before, after = done.stdout.split("--\n")
    assert " / " in before
    assert before == after


def test_its_labs_are_seen_from_inside_only() -> None:
    mrc = " ".join(MRC)
    done = shell("--", "sh", "-c", f"{mrc} lab up --name inner >&2 && {mrc} lab list --json")
    assert json.loads(done.stdout) == [{"name": "inner", "state": "up", "hosts": 2, "missing": []}]
    assert "inner" not in lab_names()


def test_a_shell_in_a_shell_has_labs_of_its_own() -> None:
    mrc = " ".join(MRC)
    done = shell("--", "sh", "-c", f"{mrc} lab up >&2 && {mrc} lab shell -- {mrc} lab list --json && {mrc} lab list")
    assert done.stdout.splitlines() == ["[]", "mrc  up"]


def test_what_is_left_in_the_background_ends_with_it(tmp_path: Path) -> None:
    """A receiver, a process in a session of its own, one that ignores SIGTERM and one that is stopped."""
    script = """
sleep 1000 & echo $! >> pids
setsid sleep 1001 & echo $! >> pids
(trap '' TERM; sleep 1002) & echo $! >> pids
sleep 1003 & echo $! >> pids; kill -STOP $!
sh -c 'sleep 1004 & echo $! >> pids'
exit 3
"""
    done = shell("--", "sh", "-c", script, cwd=tmp_path)
    assert done.returncode == 3
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 5
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_from_outside_it_ends_what_it_started(tmp_path: Path, number: int) -> None:
    script = "sleep 1000 & echo $! > pid; echo ready; wait"
    # Whoever runs the tests with nohup has SIGHUP ignored.
    argv = ["env", "--default-signal=HUP,TERM", *MRC, "lab", "shell", "--", "sh", "-c", script]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 128 + number
    process.stdout.close()
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_ended_in_the_moment_it_starts_its_command_it_ends_the_command_too() -> None:
    program = """
import os, signal, subprocess, sys
from mrc.cli.lab.household import run_household
start = subprocess.Popen
def start_and_be_ended(argv):
    process = start(argv)
    os.kill(os.getpid(), signal.SIGTERM)
    return process
subprocess.Popen = start_and_be_ended
sys.exit(run_household(["sleep", "1000"]))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_S)
    assert done.returncode == 128 + signal.SIGTERM


def test_under_nohup_the_end_of_the_terminal_ends_nothing(tmp_path: Path) -> None:
    """The command has its own way with SIGHUP and SIGTERM: it says so of the first, and ends with the second."""
    script = (
        "import signal, sys; signal.signal(signal.SIGHUP, lambda *_: print('told', flush=True)); "
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); print('ready', flush=True); "
        "[signal.pause() for _ in range(3)]"
    )
    argv = ["env", "--ignore-signal=HUP", *MRC, "lab", "shell", "--", sys.executable, "-c", script]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (out, process.returncode) == (b"", 5)


def test_a_command_that_is_killed_has_the_status_that_a_shell_gives_it() -> None:
    assert shell("--", "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL
