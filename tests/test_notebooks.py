# SPDX-License-Identifier: BSD-2-Clause
"""docs/notebooks: each runs anew in a kernel of its own, its asserts hold, and it prints what its file shows."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 300_000


def _printed(notebook: Any) -> list[str]:
    """What each cell prints, but for what depends on tshark's being there."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code" and ("tshark" not in cell.source or shutil.which("tshark"))
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setenv("MRC_TOOL_STARTED_AGAIN", "1")  # in this environment, whichever it is
    executed = runpy.run_path(str(ROOT / "tools" / "notebooks"))["executed"]
    before = path.read_bytes()
    shown = nbformat.read(path, as_version=4)
    assert _printed(executed(path)) == _printed(shown), f"{path.name}: run tools/notebooks to write its outputs anew"
    assert path.read_bytes() == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_can_be_read_without_running_it(path: Path) -> None:
    """Plots are stored, nothing of the machine that ran it is, and its links lead somewhere."""
    text = path.read_text()
    assert len(text) < MOST_BYTES
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
