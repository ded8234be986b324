"""A full disk, under standard output and under files: one line that names what could not be written, exit status 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MRC = (sys.executable, "-m", "mrc")
NO_ROOM = "cannot be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["", "unbuffered"])
@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["lab", "--help"],
        ["conformance", "list"],
        ["wireshark", "print"],
        ["wireshark", "print", "--json"],
        ["drill", "list"],
        ["drill", "list", "--json"],
        ["craft", "sack", "--hex"],
        ["craft", "sack", "--json"],
        ["craft", "write", "--count", "100", "-o", "-"],
        ["lab", "schema"],
        ["doctor", "--json"],
    ],
    ids=" ".join,
)
def test_standard_output(argv: list[str], unbuffered: str) -> None:
    """/dev/full refuses each write with ENOSPC (full(4))."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*MRC, *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert (ended.returncode, ended.stderr) == (1, f"Error: output {NO_ROOM}")


@pytest.mark.parametrize("name", ["x.pcap", "x.pcapng"])
def test_a_capture_that_is_made(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    argv = [*MRC, "craft", "write", "--count", "3", "-o", str(tmp_path / name)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (1, f"Error: {tmp_path / name}: {NO_ROOM}")
