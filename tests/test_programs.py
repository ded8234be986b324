# SPDX-License-Identifier: BSD-2-Clause
"""Commands that tests start as forks: what a new interpreter would have, they have."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import programs
import pytest
from loopback import own_loopback, skipped_without_root
from programs import MRC

ADDRESS = "fd00:98::1"


@pytest.mark.parametrize("argv", [["--version"], ["send", "--help"], ["no-such-command"], ["lab", "exec", "h0"]])
def test_streams_and_exit_status_are_those_of_an_interpreter(argv: list[str]) -> None:
    forked, real = (
        run([*MRC, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        for run in (programs.run, subprocess.run)
    )
    assert real.stdout + real.stderr
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)


@pytest.mark.root
@skipped_without_root
def test_a_fork_is_a_child_of_the_tests_where_and_with_what_it_is_started(tmp_path: Path) -> None:
    control = tmp_path / "control"
    control.mkdir(mode=0o700)
    started: list[subprocess.Popen[str]] = []
    argv = [*MRC, "recv", "--mode", "udp", "--bind", ADDRESS]
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "MRC_CONTROL_DIR": str(control)},
        "start_new_session": True,
    }
    options["limits"] = {resource.RLIMIT_NOFILE: 321}
    there: list[int] = []

    def begin() -> None:
        there.append(os.stat("/proc/thread-self/ns/net").st_ino)
        started.append(programs.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options))

    with own_loopback([ADDRESS]) as inside:
        inside(begin)
        with started[0] as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline().startswith("mrc1:")
            process = Path(f"/proc/{receiver.pid}")
            assert int((process / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
            assert os.getsid(receiver.pid) == receiver.pid
            assert (process / "cwd").readlink() == tmp_path
            assert re.search(r"^Max open files +321 ", (process / "limits").read_text(), re.M)
            assert (process / "ns" / "net").stat().st_ino == there[0] != os.stat("/proc/self/ns/net").st_ino
            assert [each.name for each in control.iterdir()] == [f"{receiver.pid}.sock"]
            receiver.send_signal(signal.SIGTERM)
            assert receiver.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("argv", "options", "expected"),
    [
        (["sh", "-c", "echo $$; exit 3"], {}, (3, "")),
        ([*MRC, "--version"], {"env": {**os.environ, "MRC_CORE": "python"}}, (0, "core: python")),
        ([*MRC, "--version"], {"pass_fds": (0,)}, (0, "core: ")),
    ],
    ids=["another program", "another core", "another descriptor"],
)
def test_what_a_fork_cannot_be_is_a_new_program(
    argv: list[str], options: dict[str, Any], expected: tuple[int, str]
) -> None:
    done = programs.run(argv, capture_output=True, text=True, **options)
    status, said = expected
    assert done.returncode == status
    assert said in done.stdout
