# SPDX-License-Identifier: BSD-2-Clause
"""docs/softroce.md: the program it shows runs as it stands, and prints what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mutants.rc import rc_mutants

from mrc import CORE
from mrc.core import COMPILED
from mrc.rc.conformance.catalogue import rc_catalogue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "softroce.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root for raw sockets and a namespace"
)
def test_the_program_runs_as_it_stands(tmp_path: Path) -> None:
    shown = re.search(r"^```python\n(.*?)^```\n```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert shown is not None
    program = tmp_path / "example.py"
    program.write_text(shown[1])
    # The command of the page, with this interpreter.
    command = f"ip link set lo up; exec {sys.executable} {program}"
    assert 'unshare --net sh -c "ip link set lo up; exec python example.py"' in TEXT
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", command], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.stdout, done.stderr, done.returncode) == (shown[2], "", 0)


@pytest.mark.skipif(CORE.kind == COMPILED, reason="wrong endpoints run interpreted")
def test_it_says_how_many_cases_and_mutants_there_are() -> None:
    assert f"{len(rc_catalogue())} cases hold one to it" in TEXT
    assert f"{len(rc_mutants())} endpoints that are wrong on purpose" in TEXT


def test_what_soft_roce_fails_is_what_its_run_expects_it_to_fail() -> None:
    """The table of the page, less the case that is unsupported, and the list in tools/softroce/held.py."""
    table = dict(re.findall(r"^\| (RC-[A-Z]+-\d\d(?:/[\w-]+)?) \| (.*) \|$", TEXT, re.MULTILINE))
    assert set(table) <= {each.id for each in rc_catalogue()}
    listed = (PAGE.parents[1] / "tools" / "softroce" / "held.py").read_text(encoding="utf-8")
    expected = re.search(r"^OTHERWISE = (.*?)^\)$", listed, re.MULTILINE | re.DOTALL)
    assert expected is not None
    failing = {each for each, why in table.items() if not why.startswith("unsupported")}
    assert failing == set(re.findall(r'"(RC-[^"]+)"', expected[1]))
