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


def _named(path: Path) -> str:
    return path.stem


def _printed(notebook: Any) -> list[str]:
    """What each cell prints, but for what depends on tshark's being there."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code" and ("tshark" not in cell.source or shutil.which("tshark"))
    ]


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_named)
def test_it_runs_and_prints_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setenv("MRC_TOOL_STARTED_AGAIN", "1")  # in this environment, whichever it is
    executed = runpy.run_path(str(ROOT / "tools" / "notebooks"))["executed"]
    before = path.read_bytes()
    shown = nbformat.read(path, as_version=4)
    assert _printed(executed(path)) == _printed(shown), f"{path.name}: run tools/notebooks to write its outputs anew"
    assert path.read_bytes() == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_named)
def test_it_can_be_read_without_running_it(path: Path) -> None:
    """Every claim is checked within, plots are stored, and nothing of the machine that ran it is."""
    text = path.read_text()
    assert len(text) < MOST_BYTES
    assert str(ROOT) not in text
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any("assert " in cell.source for cell in code)
    assert all(cell.execution_count is None for cell in code)
    for cell in code:
        drawn = any("image/png" in output.get("data", {}) for output in cell.outputs)
        assert drawn == ("plt.subplots" in cell.source)
        assert not [output for output in cell.outputs if output.output_type == "error"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_named)
def test_its_links_lead_somewhere(path: Path) -> None:
    texts = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    links = re.findall(r"\]\((?!https?:)([^)#]+)", "\n".join(texts))
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]
