# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C, SIGTERM and SIGHUP: exit status 128 + the signal's number (130, 143, 129), whatever the command.

Nothing is left behind. Labs, transfers and drills under way are interrupted in tests/cli/test_demo.py, tests/lab,
tests/drill and tests/live.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from patience import PATIENCE_S
from programs import MRC

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CAPTURE = Path(__file__).parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"
BOUND = ("--mode", "udp", "--bind", "127.0.0.1")


def stopped(argv: list[str], number: signal.Signals, reads: bytes = b"") -> tuple[int, str]:
    """Exit status and stderr of a command that gets the signal once it has printed a line."""
    environment = {key: value for key, value in os.environ.items() if key != "MRC_FABRIC"}
    with programs.start(
        [*MRC, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(reads)
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    return process.returncode, said.decode()


@pytest.mark.parametrize("number", ENDING)
def test_what_reads_a_pipe(number: signal.Signals) -> None:
    # So little that neither pipe is ever full: nobody reads one end while the other is written.
    assert stopped(["dissect", "-", "--jsonl"], number, CAPTURE.read_bytes()[:3000]) == (128 + number, "interrupted\n")


@pytest.mark.root
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["recv", *BOUND], "interrupted\n"),
        (["recv", "--once", *BOUND], "interrupted\n"),
        (["bench", "serve", *BOUND], ""),
        (["conformance", "serve", *BOUND], "interrupted\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_prints_a_ticket_and_waits(argv: list[str], said: str, number: signal.Signals, tmp_path: Path) -> None:
    directory = ["--dir", str(tmp_path)] if argv[0] == "recv" else []
    assert stopped([*argv, *directory], number) == (128 + number, said)
    assert not os.listdir(tmp_path)


def test_a_terminal_that_is_closed_does_not_end_what_runs_under_nohup() -> None:
    process = subprocess.Popen(
        ["nohup", *MRC, "dissect", "-", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            content = CAPTURE.read_bytes()
            process.stdin.write(content[:3000])
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            process.stdin.write(content[3000:6000])
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM


def test_an_interrupt_while_a_text_of_python_runs_does_not_decide_how_the_command_ends(tmp_path: Path) -> None:
    """Python notes it as one that nobody caught, and where a module is run would end by SIGINT whatever that says."""
    (tmp_path / "command.py").write_text(
        "import signal\n"
        "from mrc.cli.common import ignore_signals, interrupt_on_signals, interrupted\n"
        "interrupt_on_signals()\n"
        "try: exec('signal.raise_signal(signal.SIGTERM)')\n"
        "except KeyboardInterrupt: status = interrupted().exit_code\n"
        "ignore_signals()\n"
        "raise SystemExit(status)\n"
    )
    ended = subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, timeout=PATIENCE_S)
    assert ended.returncode == 128 + signal.SIGTERM


def test_an_interrupt_that_vanished_inside_a_library_ends_the_command_when_it_looks_again(tmp_path: Path) -> None:
    """While modules are imported, for instance: Python drops an exception that a finalizer raises."""
    (tmp_path / "command.py").write_text(
        "import signal\n"
        "from mrc.cli.common import interrupt_on_signals, interrupted\n"
        "class Library:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGTERM)\n"
        "interrupt_on_signals()\n"
        "Library()\n"
        "print('goes on', flush=True)\n"
        "try: interrupt_on_signals(lambda: True)\n"
        "except KeyboardInterrupt: raise SystemExit(interrupted().exit_code)\n"
    )
    command = [sys.executable, "-m", "command"]
    ended = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (ended.stdout, ended.returncode) == ("goes on\n", 128 + signal.SIGTERM)
