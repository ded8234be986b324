# SPDX-License-Identifier: BSD-2-Clause
"""Before a command runs: what is imported takes a tenth of a second, in which somebody may think better of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mrc
from mrc import core

SCRIPT = str(Path(sys.executable).with_name("mrc"))


@pytest.mark.parametrize("argv", [[SCRIPT], [sys.executable, "-m", "mrc"]], ids=["mrc", "python -m mrc"])
def test_an_interruption_while_modules_are_imported_shows_none_of_them(argv: list[str], tmp_path: Path) -> None:
    """An import that stands still, in place of one that takes a moment."""
    (tmp_path / "click.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        # A shell starts what runs in its background with interruptions ignored.
        ["env", "--default-signal=INT", *argv, "lab", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")


def version(variable: str) -> str:
    argv = [sys.executable, "-m", "mrc", "--version"]
    return subprocess.run(
        argv, env=os.environ | {core.VARIABLE: variable}, capture_output=True, text=True, check=True
    ).stdout


def test_the_version_says_how_the_datapath_runs() -> None:
    assert version(core.INTERPRETED) == f"mrc, version {mrc.__version__}, core: python (MRC_CORE=python)\n"
    assert version(mrc.CORE.kind).startswith(f"mrc, version {mrc.__version__}, core: {mrc.CORE.kind}")
