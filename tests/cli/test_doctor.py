"""`mrc doctor` says what a user can run, here and inside `mrc lab shell`; the commands themselves are the witness."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from ordinary_user import environment, ordinary, python
from patience import PATIENCE_S

from mrc import CORE, core

BOUND = ("--mode", "udp", "--bind", "127.0.0.1")


@pytest.fixture(scope="module")
def interpreter() -> str:
    return python()


def mrc(interpreter: str, *argv: str, user: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [interpreter, "-m", "mrc", *argv],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment() | {"HOME": "/"},
        cwd="/",
        check=False,
        **user,
    )


def usable(interpreter: str, user: dict[str, Any], *before: str) -> dict[str, dict[str, Any]]:
    """What doctor says of the commands, by the first word of each line."""
    done = mrc(interpreter, *before, "doctor", "--json", user=user)
    return {each["commands"].split(",")[0]: each for each in json.loads(done.stdout)["usable"]}


def receives(interpreter: str, user: dict[str, Any], *before: str) -> bool:
    """Whether `mrc recv` prints a ticket."""
    with subprocess.Popen(
        [interpreter, "-m", "mrc", *before, "recv", "--dir", "/tmp", *BOUND],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        cwd="/",
        **user,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    return line.startswith("mrc1:")


def test_an_ordinary_user_is_told_what_is_refused_and_what_mends_it(interpreter: str) -> None:
    user = ordinary()
    said = usable(interpreter, user)
    assert said["send"]["here"] is receives(interpreter, user) is False
    assert said["send"]["advice"].startswith("sudo ")
    # What `mrc lab shell` starts is no `mrc` command: the interpreter again.
    inside = ("lab", "shell", "--", interpreter, "-m", "mrc")
    assert said["send"]["in_lab_shell"] is receives(interpreter, user, *inside) is True
    assert said["lab"]["here"] is (mrc(interpreter, "lab", "up", "--name", "doctor-user", user=user).returncode == 0)
    assert said["lab"]["here"] is False
    assert said["lab"]["advice"] == "mrc lab shell"
    assert said["lab"]["in_lab_shell"] is True
    assert said["demo"]["here"] is True
    text = mrc(interpreter, "doctor", user=user).stdout
    assert "MISSING  raw sockets here" in text
    assert "as an ordinary user" in text


@pytest.mark.root
def test_root_can_run_everything() -> None:
    said = usable(sys.executable, {})
    assert said["send"]["here"] is True
    assert [each["here"] for each in said.values()] == [True] * len(said), said
    assert all(not each["advice"] for each in said.values())


@pytest.mark.parametrize("kind", sorted({core.INTERPRETED, CORE.kind}))
def test_it_says_how_the_datapath_runs(kind: str) -> None:
    """Interpreted the demo runs too."""
    argv = [sys.executable, "-m", "mrc", "doctor", "--json"]
    done = subprocess.run(argv, env=os.environ | {core.VARIABLE: kind}, capture_output=True, text=True, check=False)
    (check,) = (each for each in json.loads(done.stdout)["checks"] if each["name"] == "compiled datapath")
    assert check["ok"] is (kind == core.COMPILED)
    assert check["found"].startswith(kind)
    assert check["advice"] == ("" if kind == core.COMPILED else "unset MRC_CORE")
    assert "demo" not in check["needed_for"]


def test_inside_a_lab_shell_it_speaks_of_that_place(interpreter: str) -> None:
    said = usable(interpreter, ordinary(), "lab", "shell", "--", interpreter, "-m", "mrc")
    assert said["send"]["here"] is True
    assert said["lab"]["here"] is True
