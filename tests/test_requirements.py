# SPDX-License-Identifier: BSD-2-Clause
"""The page requirements.md and the tests, held to each other by tools/requirements, and that tool on made-up trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "requirements"
HEAD = "| id | requirement | grade | level | source |\n|---|---|---|---|---|\n"
ROW = "| MRC-X-0{} | A sentence. | A | must | wire.md 1 |\n"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


def test_every_requirement_has_a_test_and_every_cited_id_exists() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("rows", "test", "code", "says"),
    [
        (ROW.format(1), 'def test_a() -> None:\n    """MRC-X-01."""\n', 0, ""),
        (ROW.format(1) + ROW.format(2), 'def test_a() -> None:\n    """MRC-X-01..02."""\n', 0, ""),
        (ROW.format(1), '@case("MRC-X-01/variant", look_at="it")\ndef it() -> None:\n    pass\n', 0, ""),
        # Only a test or a case tests.
        (ROW.format(1), '@case("MRC-X-02")\ndef it() -> None:\n    """MRC-X-01."""\n', 1, "MRC-X-01"),
        (ROW.format(1), 'def test_a() -> None:\n    """Of a command."""\n    run("MRC-X-01")\n', 1, "MRC-X-01"),
        (ROW.format(1), '"""MRC-X-01."""\n\n\ndef test_a() -> None:\n    pass\n', 1, "MRC-X-01"),
        (ROW.format(1), 'def test_a() -> None:\n    """MRC-X-011, MMRC-X-01."""\n', 1, "MRC-X-01"),
        (ROW.format(1), '"""MRC-X-02."""\n\n\ndef test_a() -> None:\n    """MRC-X-01."""\n', 1, "MRC-X-02"),
        # A page that cannot be read is no success.
        ("", "", 2, "no requirements"),
        (ROW.format(1) * 2, "", 2, "twice"),
        (ROW.format(1).replace("| A |", "| D |"), "", 2, "grade"),
    ],
)
def test_what_is_missing_or_unknown_is_a_failure(tmp_path: Path, rows: str, test: str, code: int, says: str) -> None:
    (tmp_path / "docs" / "contributing").mkdir(parents=True)
    (tmp_path / "docs" / "contributing" / "requirements.md").write_text(HEAD + rows)
    place = tmp_path / ("mrc/conformance/cases/it.py" if "@case" in test else "tests/test_it.py")
    place.parent.mkdir(parents=True)
    place.write_text(test)
    done = run("--root", tmp_path)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
