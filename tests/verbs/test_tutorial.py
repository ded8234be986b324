# SPDX-License-Identifier: BSD-2-Clause
"""docs/verbs.md, block by block: what it prints is what it says it prints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tutorials import DOCS, steps

from mrc.lab import Lab
from mrc.verbs.transitions import TRANSITIONS

TUTORIAL = DOCS / "verbs.md"


def test_the_tutorial_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    here = [step for step in steps(TUTORIAL) if not step.live]
    for step in here:
        step.run(names)
    assert len(here) >= 15
    assert sum(bool(step.shown) for step in here) >= 10


@pytest.fixture
def lab_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    with Lab.up(f"tutorial-{os.getpid()}") as lab:
        monkeypatch.setenv("MRC_FABRIC", str(lab.fabric_path("h0")))
        yield lab


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root")
def test_the_live_part_prints_what_it_says(lab_host: Lab) -> None:
    live = [step for step in steps(TUTORIAL) if step.live]
    assert live
    for step in live:
        lab_host.inside("h0", lambda step=step: step.run({}))


def test_the_table_of_the_states_is_the_table_of_the_code() -> None:
    shown = {}
    for way, wanted, needs, takes in re.findall(
        r"^\| (\w+) \| (\w+) \| (.*?) ?\| (.*?) ?\|$", TUTORIAL.read_text(), re.MULTILINE
    ):
        if (way, wanted) != ("from", "to") and "errno" not in way:
            shown[way, wanted] = (set(filter(None, needs.split(", "))), set(filter(None, takes.split(", "))))
    coded = {
        (current.name, wanted.name): (set(row.required), set(row.optional))
        for (current, wanted), row in TRANSITIONS.items()
        if wanted.name not in ("RESET", "ERROR")
    }
    assert {way: row for way, row in shown.items() if way in coded} == coded
