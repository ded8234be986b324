# SPDX-License-Identifier: BSD-2-Clause
"""docs/notebooks: each runs anew in a kernel of its own, its asserts hold, and it prints what its file shows."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def tool() -> Iterator[dict[str, Any]]:
    """What tools/notebooks defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")  # where it finds what it imports
        patch.setenv("MRC_TOOL_STARTED_AGAIN", "1")  # in this interpreter, whichever it is
        yield runpy.run_path(str(ROOT / "tools" / "notebooks"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_it_shows(
    path: Path, tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools/notebooks", "--check", str(path)])
    with pytest.raises(SystemExit) as ended:
        tool["main"]()
    assert not ended.value.code, "".join(capsys.readouterr())


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
