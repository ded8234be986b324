# SPDX-License-Identifier: BSD-2-Clause
"""`--trace` as far as it goes without a fabric; tests/live has the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mrc.net.ticket import Ticket

# A good one, of nobody.
TICKET = Ticket(("::1",), 9, bytes(32), bytes(16)).text


def _mrc(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    argv = ("-m", "mrc", *argv)
    return subprocess.run([sys.executable, *map(str, argv)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", ["send", "recv", "demo"])
def test_help_shows_it_with_an_example(command: str) -> None:
    done = _mrc(command, "--help")
    assert done.returncode == 0
    assert "--trace FILE" in done.stdout
    examples = done.stdout.partition("Examples:")[2].partition("Options:")[0]
    assert " --trace " in examples


@pytest.mark.parametrize("command", ["send", "recv"])
def test_a_trace_that_cannot_be_written_is_said_before_anything_else(command: str, tmp_path: Path) -> None:
    file, trace = tmp_path / "file", tmp_path / "nowhere" / "t"
    file.write_bytes(b"abc")
    of_command = ["send", file, TICKET] if command == "send" else ["recv", "--dir", tmp_path]
    done = _mrc(*of_command, "--mode", "udp", "--bind", "127.0.0.1", "--trace", trace)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [f"Error: {trace}: No such file or directory"]
