"""docs/verbs.md, block by block: what it prints is what it says it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mrc.lab import Lab
from mrc.verbs.transitions import TRANSITIONS

TUTORIAL = Path(__file__).parents[2] / "docs" / "verbs.md"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of code, the line it starts on, and what is shown below it."""

    line: int
    code: str
    shown: str
    live: bool


def steps() -> list[Step]:
    text = TUTORIAL.read_text()
    blocks = [(text[: match.start()].count("\n") + 2, match[1], match[2]) for match in _FENCE.finditer(text)]
    found = []
    for (line, kind, body), after in zip(blocks, [*blocks[1:], (0, "", "")], strict=True):
        if kind.startswith("python"):
            found.append(Step(line, body, after[2] if after[1] == "text" else "", kind == "python live"))
        else:
            assert kind == "text", f"line {line}: a block of kind {kind!r} is neither code nor output"
    return found


def run(step: Step, names: dict[str, Any]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * (step.line - 1) + step.code, str(TUTORIAL), "exec"), names)
    assert printed.getvalue() == step.shown, f"line {step.line}"


def test_the_tutorial_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    here = [step for step in steps() if not step.live]
    for step in here:
        run(step, names)
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
    live = [step for step in steps() if step.live]
    assert live
    for step in live:
        lab_host.inside("h0", lambda step=step: run(step, {}))


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
