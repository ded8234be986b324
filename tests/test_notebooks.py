# SPDX-License-Identifier: BSD-2-Clause
"""docs/notebooks: each runs anew in a kernel of its own, its asserts hold, and it prints what its file shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_it_shows(path: Path) -> None:
    command = [sys.executable, ROOT / "tools" / "notebooks", "--check", path]
    environment = os.environ | {"MRC_TOOL_STARTED_AGAIN": "1"}  # in this one, whichever it is
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_can_be_read_without_running_it(path: Path) -> None:
    """Plots are stored, nothing of the machine that ran it is, and its links lead somewhere."""
    text = path.read_text()
    assert len(text) < 300_000
    assert str(ROOT) not in text
    cells = nbformat.reads(text, as_version=4).cells
    for cell in cells:
        outputs = cell.get("outputs", [])
        assert cell.get("execution_count") is None
        assert any("image/png" in each.get("data", {}) for each in outputs) == ("plt.subplots" in cell.source)
        assert not [each for each in outputs if each.output_type == "error"]
    links = re.findall(
        r"\]\((?!https?:)([^)#]+)", "\n".join(each.source for each in cells if each.cell_type == "markdown")
    )
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]
