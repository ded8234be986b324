# SPDX-License-Identifier: BSD-2-Clause
"""docs/security.md: each line of its tables names a test that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "security.md").read_text().splitlines()
_TESTED = re.compile(r"`(tests/[\w/.]+|[a-z_]+)`")


def tables() -> list[tuple[str, str]]:
    """(row, what stands in its test column) of each table that has one."""
    found, column = [], -1
    for line in LINES:
        if not line.startswith("|"):
            column = -1
            continue
        cells = [each.strip() for each in line.strip("|").split("|")]
        if column < 0:
            column = cells.index("test") if "test" in cells else -2
        elif column >= 0 and not set(line) <= set("|-"):
            found.append((line, cells[column]))
    return found


def test_each_line_has_a_test_and_each_test_is_there() -> None:
    rows = tables()
    assert len(rows) > 60
    for row, said in rows:
        names = _TESTED.findall(said)
        assert names or said == "-", row
        for name in names:
            path = ROOT / name if name.startswith("tests/") else Path(__file__).with_name(f"test_security_{name}.py")
            assert path.exists(), f"{name}: {row}"


def test_lines_without_a_test_say_that_nothing_is_defended() -> None:
    assert all("none" in row for row, said in tables() if said == "-")
