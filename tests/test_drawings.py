"""docs/state-machines.md and its drawings are those of the tables in the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mrc.endpoint.paths import states as ev_states
from mrc.endpoint.qp_states import TRANSITIONS as QP_TRANSITIONS
from mrc.endpoint.qp_states import QpState

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ANY = "any_state"
Arrows = set[tuple[str, str, str]]


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "draw-state-machines", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_drawings_are_current() -> None:
    done = _run("--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["state-machines.md", "state-machine-qp.svg", "state-machine-ev.svg"])
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_drawing_that_is_not_current_is_named_in_one_line(tmp_path: Path, name: str, how: str) -> None:
    for path in DOCS.glob("state-machine*"):
        shutil.copy(path, tmp_path)
    if how == "changed":
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    else:
        (tmp_path / name).unlink()
    done = _run("--check", "--docs", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{name} not current: run tools/draw-state-machines\n"
    assert _run("--docs", tmp_path).returncode == 0
    assert _run("--check", "--docs", tmp_path).returncode == 0


def _drawn(number: int, states: list[str]) -> Arrows:
    """The arrows of the page's Mermaid diagram of this number, those from any state written out."""
    block = (DOCS / "state-machines.md").read_text().split("```mermaid\n")[number].split("```")[0]
    arrows: Arrows = set()
    for old, new, labels in re.findall(r"^    (\w+) --> (\w+)(?: : (.+))?$", block, re.M):
        for label in labels.split(", "):
            arrows |= {(state, new, label) for state in (states if old == ANY else [old]) if state != new}
    return arrows


def test_every_transition_of_a_qp_is_drawn_and_no_other() -> None:
    table = {(old.name, new.name, "") for old, new in QP_TRANSITIONS if old != new}
    assert _drawn(1, [state.name for state in QpState]) == table


def test_every_transition_of_an_ev_is_drawn_and_no_other() -> None:
    table = {
        (old.name, new.name, happened.name) for (old, happened), new in ev_states.TRANSITIONS.items() if old != new
    }
    assert _drawn(2, [state.name for state in ev_states.EvState]) == table


@pytest.mark.parametrize(("name", "number"), [("qp", 1), ("ev", 2)])
def test_an_svg_has_the_states_and_labels_of_its_diagram(name: str, number: int) -> None:
    drawing = ElementTree.parse(DOCS / f"state-machine-{name}.svg").getroot()
    texts = {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")} - {"any state"}
    arrows = _drawn(number, [])
    page = (DOCS / "state-machines.md").read_text().split("```mermaid\n")[number].split("```")[0]
    states = set(re.findall(r"--> (\w+)", page))
    from_any = set(re.findall(rf"{ANY} --> \w+ : (.+)", page))
    assert texts == states | {label for _, _, label in arrows if label} | from_any
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) == page.count(" --> ") - 1  # not the [*]
