# SPDX-License-Identifier: BSD-2-Clause
"""The rules the house stands on: who imports whom, and whose names are whose.

Private names are ruff's affair (SLF001), imports those of `[tool.importlinter]` in pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_imports_point_one_way() -> None:
    """Among packages, rooms and files, at run time and for types: pyproject.toml has who may import whom."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # Others read what `QP.figures` offers.
        (r"\bendpoint_qp\b", {"verbs"}),
        # A start that the system refuses is an error with a reason, for whoever wants the thread.
        (r"\bThread\(", {"threads.py"}),
        # What is imported is public, but for a header of Scapy's.
        (r"\bfrom \S+ import (?:[\w ,]*|\([\w\s,]*)\b_[A-Za-z]", {"layers"}),
    ],
)
def test_some_names_are_the_affair_of_one_place(pattern: str, places: set[str]) -> None:
    named = [path for path in (ROOT / "mrc").rglob("*.py") if re.search(pattern, path.read_text())]
    assert {path.relative_to(ROOT / "mrc").parts[0] for path in named} == places
