# SPDX-License-Identifier: BSD-2-Clause
"""An installed package has no wrong endpoints and says so; a checkout has them wherever its command is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mrc

PACKAGE = Path(mrc.__file__).parent
TARGET = "mutant:sack_echoes_another_ev"
ASKING = [["serve", "--mutant", "sack_echoes_another_ev"], ["run", "--id", "MRC-SACK-04", "--target", TARGET]]
RC = ["run", "--transport", "rc", "--id", "RC-RESP-06", "--target", "mutant:gaps_are_silent"]


def conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mrc", "conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder whose mrc Python finds first: this package, without what lies beside it in the checkout."""
    (tmp_path / "mrc").symlink_to(PACKAGE)
    return tmp_path


@pytest.mark.parametrize("arguments", [*ASKING, RC], ids=["serve", "run", "run rc"])
def test_an_installed_package_refuses_mutants_in_one_line(site: Path, arguments: list[str]) -> None:
    done = conformance(site, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: mutants come with a checkout of the sources (tests/mutants), and {site / 'mrc'} is an installed "
        f"package: in the folder of a checkout run `{sys.executable} -m mrc conformance ...`\n"
    )


@pytest.mark.parametrize("there", ["hatch_build.py", "tests/mutants/__init__.py"])
def test_sources_without_tests_and_tests_of_others_are_no_checkout(site: Path, there: str) -> None:
    (site / there).parent.mkdir(parents=True, exist_ok=True)
    (site / there).touch()
    done = conformance(site, *ASKING[0])
    assert (done.returncode, done.stdout) == (1, "")
    assert "mutants come with a checkout" in done.stderr


def test_an_installed_package_needs_none(site: Path) -> None:
    done = conformance(site, "run", "--id", "MRC-SACK-04")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_checkout_has_its_own_whatever_else_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    done = conformance(tmp_path, *ASKING[1])
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAILED  MRC-SACK-04" in done.stdout


@pytest.mark.parametrize("command", ["serve", "run"])
def test_the_help_says_where_they_are(site: Path, command: str) -> None:
    words = " ".join(conformance(site, command, "--help").stdout.split())
    assert "tests/mutants of a checkout" in words
    assert "an installed package has none" in words
