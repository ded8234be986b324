# SPDX-License-Identifier: BSD-2-Clause
"""The front page runs, and what pages of docs name is there: files, classes, tests, commits of figures, states."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tutorials import steps

from mrc.endpoint.paths.states import TRANSITIONS as EV_TRANSITIONS
from mrc.endpoint.qp_states import TRANSITIONS as QP_TRANSITIONS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXT = {path.relative_to(ROOT).as_posix(): path.read_text() for path in PAGES}
_FILE = re.compile(r"`((?:(?:mrc|tests|benchmarks|examples|docs)/[\w/.-]*\.\w+)|tools/[\w/.-]+)`")
_MEMBER = re.compile(r"\[`([A-Z]\w+)(?:\.(\w+))?`\]\((\S+?\.py)\)")
# Sections with figures that no test works out again; None: all sections that have a table of figures.
RECORDED: dict[str, tuple[str, ...] | None] = {
    "performance.md": None,
    "simulation.md": ("How fast it is", "Beside htsim", "An incast of 64"),
    "contributing/testing.md": ("Figures",),
    "analyze.md": ("Speed and memory",),
    "conformance.md": ("What is unsupported",),
}


def test_the_front_page_is_one_page_and_its_program_prints_what_it_shows() -> None:
    assert len(TEXT["README.md"].splitlines()) <= 100
    (program,) = steps(ROOT / "README.md")
    program.run({})
    assert program.shown
    assert len([line for line in program.code.splitlines() if line]) <= 12


def test_a_file_that_a_page_names_is_there() -> None:
    """Links are looked at by tools/site; these stand in backticks."""
    named = {(page, name) for page, text in TEXT.items() for name in _FILE.findall(text)}
    assert len(named) > 100
    assert not [each for each in named if not (ROOT / each[1]).exists()]


def names_of(path: Path) -> Iterator[tuple[str, str]]:
    """(class, "") and (class, method) of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name, ""
            yield from ((node.name, each.name) for each in ast.walk(node) if isinstance(each, ast.FunctionDef))


def test_a_class_that_links_to_a_file_is_in_it() -> None:
    named = {(page, *found) for page, text in TEXT.items() for found in _MEMBER.findall(text)}
    assert len(named) > 50
    for page, name, member, file in named:
        assert (name, member) in names_of((ROOT / page).parent / file), f"{page}: {name}.{member} is not in {file}"


def test_each_line_of_the_security_page_has_a_test_or_says_that_nothing_is_defended() -> None:
    column, seen = -1, 0
    for line in TEXT["docs/security.md"].splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if "test" in cells or not line.startswith("|"):
            column = cells.index("test") if "test" in cells else -1
        elif column >= 0 and not set(line) <= set("|-"):
            tests = re.findall(r"`(tests/[\w/.]+|[a-z_]+)`", cells[column])
            paths = [each if "/" in each else f"tests/security/test_security_{each}.py" for each in tests]
            assert all((ROOT / path).exists() for path in paths), line
            assert paths or (cells[column] == "-" and "none" in line), line
            seen += 1
    assert seen > 60


@pytest.mark.parametrize("page", RECORDED)
def test_figures_that_nothing_compares_name_their_commit(page: str) -> None:
    parts = re.split(r"^#{2,3} (.*)\n", TEXT[f"docs/{page}"], flags=re.MULTILINE)
    found = dict(zip((title.partition(":")[0] for title in parts[1::2]), parts[2::2], strict=True))
    wanted = RECORDED[page] or [title for title, text in found.items() if re.search(r"^\|.*[0-9]", text, re.M)]
    assert wanted
    for title in wanted:
        assert re.search(r"recorded by (?:a )?commits?\b.*\b[0-9a-f]{8}\b", found[title]), f"{page}: {title}"


def test_the_drawings_of_the_states_are_current() -> None:
    command = [sys.executable, ROOT / "tools" / "draw-state-machines", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("qp", {(old.name, new.name, "") for old, new in QP_TRANSITIONS}),
        ("ev", {(old.name, new.name, happened.name) for (old, happened), new in EV_TRANSITIONS.items()}),
    ],
)
def test_every_transition_is_drawn_and_no_other(name: str, table: set[tuple[str, str, str]]) -> None:
    """By the titles of the arrows, those from any state written out."""
    states, drawn = {state for old, new, _ in table for state in (old, new)}, set()
    for title in ElementTree.parse(DOCS / f"state-machine-{name}.svg").iter("{http://www.w3.org/2000/svg}title"):
        arrow = re.fullmatch(r"(\w+|any state) to (\w+)(?:: (.+))?", title.text or "")
        for label in (arrow[3] or "").split(", ") if arrow else ():
            drawn |= {(old, arrow[2], label) for old in (states if arrow[1] == "any state" else [arrow[1]])}
    assert {each for each in drawn if each[0] != each[1]} == {each for each in table if each[0] != each[1]}


def test_every_drawing_reads_in_light_and_dark_and_no_page_needs_mermaid() -> None:
    """The site is read from the file system. Only classes have colours, so that both schemes apply to everything."""
    drawings = [*(DOCS / "concepts").glob("*.svg"), *DOCS.glob("state-machine-*.svg")]
    assert len(drawings) > 2
    for path in drawings:
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text, path
        assert not re.search(r'\b(?:fill|stroke)="#', text), path
    assert not [page for page, text in TEXT.items() if "mermaid" in text]
