# SPDX-License-Identifier: BSD-2-Clause
"""docs/state-machines.md and its drawings are those of the tables in the code."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mrc.endpoint.paths import states as ev_states
from mrc.endpoint.qp_states import TRANSITIONS as QP_TRANSITIONS
from mrc.endpoint.qp_states import QpState

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ANY = "any state"
SVG = "{http://www.w3.org/2000/svg}"
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


def _drawing(name: str) -> ElementTree.Element:
    return ElementTree.parse(DOCS / f"state-machine-{name}.svg").getroot()


def _drawn(name: str, states: list[str]) -> Arrows:
    """The arrows of a drawing by their titles, those from any state written out."""
    arrows: Arrows = set()
    for arrow in _drawing(name).iter(f"{SVG}g"):
        title = arrow.findtext(f"{SVG}title") or ""
        words = re.fullmatch(r"(\w+|any state) to (\w+)(?:: (.+))?", title)
        assert words is not None, title
        old, new, labels = words.groups()
        for label in (labels or "").split(", "):
            arrows |= {(state, new, label) for state in (states if old == ANY else [old]) if state != new}
    return arrows


def test_every_transition_of_a_qp_is_drawn_and_no_other() -> None:
    table = {(old.name, new.name, "") for old, new in QP_TRANSITIONS if old != new}
    assert _drawn("qp", [state.name for state in QpState]) == table


def test_every_transition_of_an_ev_is_drawn_and_no_other() -> None:
    table = {
        (old.name, new.name, happened.name) for (old, happened), new in ev_states.TRANSITIONS.items() if old != new
    }
    assert _drawn("ev", [state.name for state in ev_states.EvState]) == table


@pytest.mark.parametrize(("name", "states"), [("qp", QpState), ("ev", ev_states.EvState)])
def test_an_arrow_leads_where_its_title_says_and_shows_its_labels(name: str, states: type[IntEnum]) -> None:
    drawing = _drawing(name)
    boxes = _boxes(drawing)
    assert set(boxes) == {ANY, *(state.name for state in states)}
    for arrow in drawing.iter(f"{SVG}g"):
        words, _, labels = (arrow.findtext(f"{SVG}title") or "").partition(": ")
        old, new = words.split(" to ")
        path, tip = arrow.find(f"{SVG}path"), arrow.find(f"{SVG}polygon")
        assert path is not None
        assert tip is not None
        numbers = [float(number) for number in re.findall(r"[\d.]+", path.get("d", ""))]
        assert _nearest(boxes, numbers[0], numbers[1]) == old
        assert _nearest(boxes, numbers[-2], numbers[-1]) == new
        assert tip.get("points", "").startswith(f"{numbers[-2]},{numbers[-1]} ")
        assert [text.text for text in arrow.iter(f"{SVG}text")] == (labels.split(", ") if labels else [])


@pytest.mark.parametrize(("name", "first"), [("qp", QpState.RESET), ("ev", ev_states.EvState.GOOD)])
def test_the_dot_leads_to_the_first_state(name: str, first: IntEnum) -> None:
    drawing = _drawing(name)
    path = drawing.find(f"{SVG}path")  # outside of the arrows between states
    assert path is not None
    *_, x, y = (float(number) for number in re.findall(r"[\d.]+", path.get("d", "")))
    assert _nearest(_boxes(drawing), x, y) == first.name


def _boxes(drawing: ElementTree.Element) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box, by the name in it."""
    rectangles = [rectangle for rectangle in drawing.findall(f"{SVG}rect") if rectangle.get("class") != "ground"]
    names = [text.text or "" for text in drawing.findall(f"{SVG}text")]
    found = {}
    for name, rectangle in zip(names, rectangles, strict=True):
        x, y, width, height = (float(rectangle.get(key, "nan")) for key in ("x", "y", "width", "height"))
        found[name] = (x, y, x + width, y + height)
    return found


def _nearest(boxes: dict[str, tuple[float, float, float, float]], x: float, y: float) -> str:
    """The name of the box whose border is nearest to a point outside of it."""

    def distance(name: str) -> float:
        left, top, right, bottom = boxes[name]
        return math.hypot(max(left - x, 0, x - right), max(top - y, 0, y - bottom))

    return min(boxes, key=distance)


def test_a_drawing_reads_in_light_and_dark() -> None:
    for path in DOCS.glob("state-machine-*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text
        # Only classes have colours, so that both schemes apply to everything.
        assert not re.search(r'\b(?:fill|stroke)="', text)


def test_no_page_has_a_diagram_that_the_site_cannot_show() -> None:
    # The site is read from the file system and has no Mermaid: a diagram is a drawing.
    pages = [
        path for path in [*DOCS.rglob("*.md"), ROOT / "README.md"] if "mermaid" in path.read_text(encoding="utf-8")
    ]
    assert not pages
