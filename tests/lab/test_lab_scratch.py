# SPDX-License-Identifier: BSD-2-Clause
"""The directory of a run: gone with it, or with the next run; nobody else's ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mrc
from mrc.lab.scratch import ScratchDirectory, scratch_directory

HOLD = """
import sys
from mrc.lab.scratch import scratch_directory
with scratch_directory("run-") as made:
    (made / "file").write_text("x")
    print(made, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def hold() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def age(path: Path) -> None:
    os.utime(path, (time.time() - 3600,) * 2)


def test_it_goes_with_the_block(temporary: Path) -> None:
    with scratch_directory("run-") as made:
        assert made.parent == temporary
        assert made.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_it_goes_with_its_object_and_may_be_closed_twice(temporary: Path) -> None:
    scratch = ScratchDirectory("run-")
    (scratch.path / "file").touch()
    scratch.close()
    scratch.close()
    assert list(temporary.iterdir()) == []


def test_one_of_this_process_that_is_old_stays(temporary: Path) -> None:
    held = ScratchDirectory("run-")
    age(held.path)
    with scratch_directory("run-"):
        assert held.path.exists()
    held.close()


def test_every_directory_of_a_run_is_made_here() -> None:
    """Another one would stay behind when its program is killed."""
    package = Path(mrc.__file__).parent
    makes = [path for path in package.rglob("*.py") if re.search(r"TemporaryDirectory|mkdtemp", path.read_text())]
    assert makes == [package / "lab" / "scratch.py"]


def test_what_a_killed_run_left_goes_with_the_next(temporary: Path) -> None:
    process, left = hold()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (left / "file").exists()
    age(left)
    with scratch_directory("run-") as made:
        assert list(temporary.iterdir()) == [made]


def test_what_is_in_use_or_has_just_been_made_stays(temporary: Path) -> None:
    process, used = hold()
    age(used)
    young = temporary / "run-young"
    young.mkdir()
    with scratch_directory("run-"):
        assert (used / "file").exists()
        assert young.exists()
    process.communicate()
    assert not used.exists()


def test_what_is_no_directory_or_of_another_name_stays(temporary: Path) -> None:
    other, file, target = temporary / "walk-1", temporary / "run-file", temporary / "elsewhere"
    other.mkdir()
    target.mkdir()
    file.touch()
    link = temporary / "run-link"
    link.symlink_to(target)
    for path in (other, file, target):
        age(path)
    os.utime(link, (0, 0), follow_symlinks=False)
    with scratch_directory("run-"):
        assert all(path.exists() for path in (other, file, target, link))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_stays(temporary: Path) -> None:
    theirs = temporary / "run-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    age(theirs)
    with scratch_directory("run-"):
        assert theirs.exists()
