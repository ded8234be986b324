# SPDX-License-Identifier: BSD-2-Clause
"""docs/extending.md: its blocks print what they say."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tutorials import DOCS, ChangedSources, steps

from mrc.endpoint.congestion import registry
from mrc.wire.opcodes import OPCODES

PAGE = DOCS / "extending.md"


@pytest.fixture(autouse=True)
def known_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_the_page_prints_what_it_says() -> None:
    assert 0xDA not in OPCODES  # it takes one that is nobody's
    names: dict[str, Any] = {}
    here = [step for step in steps(PAGE) if not step.live and not step.changed]
    assert [bool(step.shown) for step in here] == [False, True, True]
    for step in here:
        step.run(names)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root")
def test_the_live_part_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    (live,) = [step for step in steps(PAGE) if step.live]
    for step in (steps(PAGE)[0], live):
        step.run(names)


def test_what_is_added_as_the_page_says_does_what_it_says(tmp_path: Path) -> None:
    sources = ChangedSources(PAGE, tmp_path)
    commands = list(sources.consoles())
    assert len(commands) == 3
    for line, command, shown in commands:
        assert sources.run("sh", "-c", command) == shown, f"{PAGE.name}, line {line}"
    changed = [step for step in steps(PAGE) if step.changed]
    assert len(changed) == 3
    for step in changed:
        assert sources.run(sys.executable, "-c", step.code) == step.shown != "", f"{PAGE.name}, line {step.line}"
