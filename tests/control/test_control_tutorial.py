# SPDX-License-Identifier: BSD-2-Clause
"""docs/control.md, block by block: what it prints is what it says it prints, and its tables are those of the code."""

from __future__ import annotations

import re
from typing import Any

from tutorials import DOCS, steps

from mrc.control.states import TABLES, ProfileState

TUTORIAL = DOCS / "control.md"


def test_the_tutorial_prints_what_it_says() -> None:
    """The C examples' twins: explicit, generated, probes, events."""
    names: dict[str, Any] = {}
    blocks = steps(TUTORIAL)
    for step in blocks:
        step.run(names)
    assert len(blocks) >= 9
    assert sum(bool(step.shown) for step in blocks) >= 7


def test_the_table_of_the_states_is_the_table_of_the_code() -> None:
    """MRC-CTL-03."""
    rows = re.findall(
        r"^\| (EV format|EV|CC|any) \| (\w+) \| (\w+) \| (.*?) ?\| (.*?) ?\|$", TUTORIAL.read_text(), re.M
    )
    shown = {(kind, old, new): (set(filter(None, needs.split(", "))), takes) for kind, old, new, needs, takes in rows}
    coded = {(kind, old.name, new.name): row for kind, table in TABLES.items() for (old, new), row in table.items()}
    for (kind, old, new), (needs, takes) in shown.items():
        for each in TABLES if kind == "any" else [kind]:
            row = coded.pop((each, old, new))
            assert row.needed == needs
            if kind != "any" and not takes.startswith("the same"):
                assert row.taken == set(takes.split(", "))
            elif takes == "nothing":
                assert not row.taken
    assert coded == {}
    assert {state.name for state in ProfileState} == {"INIT", "OFFLINE", "ONLINE"}
