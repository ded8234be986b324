# SPDX-License-Identifier: BSD-2-Clause
"""docs/drills.md says of each drill what it expects, as the drill itself has it, and shows its plot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mrc.drill.catalogue import DRILLS, expectation_table

DOCS = Path(__file__).parent.parent.parent / "docs"
SECTIONS = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^## |\Z)", (DOCS / "drills.md").read_text(), re.M | re.S))


def test_every_drill_has_a_section_and_no_other_has() -> None:
    assert list(SECTIONS) == list(DRILLS)
    assert expectation_table(None) in (DOCS / "drills.md").read_text()


@pytest.mark.parametrize("name", DRILLS)
def test_a_section_has_the_table_the_plot_and_the_paper(name: str) -> None:
    section = SECTIONS[name]
    assert expectation_table(DRILLS[name]) in section
    assert f"![{name}](drills/{name}.svg)" in section
    assert (DOCS / "drills" / f"{name}.svg").read_text().lstrip().startswith("<?xml")
    assert "**The paper**: " in section
    assert "**Here**" in section
