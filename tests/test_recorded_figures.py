# SPDX-License-Identifier: BSD-2-Clause
"""Figures of docs that no test works out again say which commit recorded them.

Those of docs/virtual-time.md, docs/studies and docs/experiments.md are compared instead: tests/sim.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Sections with tables of figures; None: all that have one.
RECORDED: dict[str, tuple[str, ...] | None] = {
    "performance.md": None,
    "simulation.md": ("How fast it is", "Beside htsim", "An incast of 64"),
    "contributing/testing.md": ("Figures",),
    "analyze.md": ("Speed and memory",),
    "conformance.md": ("What is unsupported",),
}


def sections(page: str) -> dict[str, str]:
    """The text of each section, by its heading, without the sections below it."""
    parts = re.split(r"^#{2,3} (.*)\n", (DOCS / page).read_text(), flags=re.MULTILINE)
    return dict(zip((title.partition(":")[0] for title in parts[1::2]), parts[2::2], strict=True))


@pytest.mark.parametrize("page", RECORDED)
def test_figures_that_nothing_compares_name_their_commit(page: str) -> None:
    found = sections(page)
    wanted = RECORDED[page] or tuple(title for title, text in found.items() if re.search(r"^\|.*[0-9]", text, re.M))
    assert wanted
    for title in wanted:
        assert re.search(r"recorded by (?:a )?commits?\b.*\b[0-9a-f]{8}\b", found[title]), f"{page}: {title}"
