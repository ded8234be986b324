# SPDX-License-Identifier: BSD-2-Clause
"""The front page runs, and what pages and sources name is there: files, classes, tests, figures, requirements,
sections of the protocol pages and what is quoted of them. The forms: `wire.md section 8` or `wire.md 8`; `behaviour.md,
Responder`, a heading; after either `: "..."` quotes the page, with `...` for what is left out.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tutorials import steps

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
PROTOCOL = {name: TEXT[f"docs/protocol/{name}.md"] for name in ("wire", "behaviour", "nscc", "api")}
SECTIONS = {name: re.findall(r"^#+ (?:(\d+)\. )?(.*)$", text, re.MULTILINE) for name, text in PROTOCOL.items()}
CITING = ("mrc/**/*.py", "tests/**/*.py", "docs/**/*.md", "tools/**/*.py", "benchmarks/**/*.py", "*.md")
_CITATION = re.compile(
    r"\b(wire|behaviour|nscc|api)\.md(?:,? (?:sections? )?(\d+)|, (?=([A-Z].{0,60})))?"
    r'(?:(?:(?!\.md)[^"{]){0,100}?: "([^"]+)")?'
)
HEAD = "| id | requirement | grade | level | source |\n|---|---|---|---|---|\n"
ROW = "| MRC-X-0{} | A sentence. | A | must | wire.md 1 |\n"


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


def names_of(path: Path) -> set[tuple[str, str]]:
    """(class, "") and (class, method) of a file."""
    classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
    inside = [(of.name, each) for of in classes for each in ast.walk(of)]
    return {(name, each.name if isinstance(each, ast.FunctionDef) else "") for name, each in inside}


def test_a_class_that_links_to_a_file_is_in_it() -> None:
    named = {(page, *found) for page, text in TEXT.items() for found in _MEMBER.findall(text)}
    assert len(named) > 50
    within = {at: names_of(at) for at in {(ROOT / page).parent / file for page, _, _, file in named}}
    for page, name, member, file in named:
        assert (name, member) in within[(ROOT / page).parent / file], f"{page}: {name}.{member} is not in {file}"


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


def started(tool: str, *arguments: str | Path) -> tuple[int, str]:
    """The exit status of a tool, and what it says."""
    command = [sys.executable, ROOT / "tools" / tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("tool", ["draw-state-machines --check", "requirements"])
def test_a_tool_that_holds_pages_to_the_sources_finds_nothing(tool: str) -> None:
    """State tables are drawn; requirements have tests, and ids are of some."""
    status, says = started(*tool.split())
    assert status == 0, says


def test_every_drawing_reads_in_light_and_dark_and_no_page_needs_mermaid() -> None:
    """The site is read from the file system. Only classes have colours, so that both schemes apply to everything."""
    drawings = [*(DOCS / "concepts").glob("*.svg"), *DOCS.glob("state-machine-*.svg")]
    assert len(drawings) > 2
    for path in drawings:
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text, path
        assert not re.search(r'\b(?:fill|stroke)="#', text), path
    assert not [page for page, text in TEXT.items() if "mermaid" in text]


def plain(text: str) -> str:
    """Text without case, markup, grades, punctuation between words, and breaks of lines."""
    text = re.sub(r'\]\([^)]*\)|[*`"\\[\]]|\([abc]\)', "", text.lower())
    return " ".join(re.sub(r"[.,;:](?=\s|$)", "", text.replace(" :", ":")).split())


PLAIN = {name: plain(text) for name, text in PROTOCOL.items()}


def faults(text: str) -> Iterator[str]:
    """What is wrong with the citations of a text; an empty one for each that is right."""
    for cited in _CITATION.finditer(re.sub(r"\n\s*(?:#:? )?\s*", " ", text)):
        page, number, heading, quote = cited.groups()
        numbers = [each for each, _ in SECTIONS[page]]
        begins = any(re.match(rf"{re.escape(each)}\b", heading or "") for _, each in SECTIONS[page])
        pieces = [re.escape(plain(each)) for each in (quote or "").split("...")]
        wrong = number is not None and number not in numbers
        wrong |= heading is not None and not begins
        yield cited[0] if wrong or not re.search(".*".join(pieces), PLAIN[page]) else ""


def test_every_citation_leads_to_a_section_and_every_quote_stands_there() -> None:
    seen, found = 0, []
    for path in sorted({path for pattern in CITING for path in ROOT.glob(pattern)} - {Path(__file__)}):
        said = list(faults(path.read_text()))
        seen += len(said)
        found += [f"{path.relative_to(ROOT)}: {each}" for each in said if each]
    assert not found, "\n".join(found)
    assert seen > 1200


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("wire.md section 2", True),
        ("wire.md 99", False),
        ("behaviour.md, Retry budget and its end", True),
        ("(behaviour.md,\n    # Losses)", False),
        ('behaviour.md, Retry budget: "it\n    belongs ... PSN"', True),
        ('behaviour.md, Retry budget: "it belongs to nobody"', False),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, right: bool) -> None:
    assert [not each for each in faults(text)] == [right]


@pytest.mark.parametrize(
    ("rows", "test", "code", "says"),
    [
        (ROW.format(1), 'def test_a() -> None:\n    """MRC-X-01."""\n', 0, ""),
        (ROW.format(1) + ROW.format(2), 'def test_a() -> None:\n    """MRC-X-01..02."""\n', 0, ""),
        (ROW.format(1), '@case("MRC-X-01/variant", look_at="it")\ndef it() -> None:\n    pass\n', 0, ""),
        (ROW.format(1), '@NET.case("MRC-X-01", look_at="it")\ndef it() -> None:\n    pass\n', 0, ""),
        # Only a test or a case tests.
        (ROW.format(1), '@case("MRC-X-02")\ndef it() -> None:\n    """MRC-X-01."""\n', 1, "MRC-X-01"),
        (ROW.format(1), 'def test_a() -> None:\n    """Of a command."""\n    run("MRC-X-01")\n', 1, "MRC-X-01"),
        (ROW.format(1), '"""MRC-X-01."""\n\n\ndef test_a() -> None:\n    pass\n', 1, "MRC-X-01"),
        (ROW.format(1), 'def test_a() -> None:\n    """MRC-X-011, MMRC-X-01."""\n', 1, "MRC-X-01"),
        (ROW.format(1), '"""MRC-X-02."""\n\n\ndef test_a() -> None:\n    """MRC-X-01."""\n', 1, "MRC-X-02"),
        # A page that cannot be read is no success.
        ("", "", 2, "no requirements"),
        (ROW.format(1) * 2, "", 2, "twice"),
        (ROW.format(1).replace("| A |", "| D |"), "", 2, "grade"),
    ],
)
def test_a_requirement_without_a_test_and_an_unknown_id_are_found(
    tmp_path: Path, rows: str, test: str, code: int, says: str
) -> None:
    place = "mrc/conformance/cases/it.py" if "case(" in test else "tests/test_it.py"
    for name, text in (("docs/contributing/requirements.md", HEAD + rows), (place, test)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    status, said = started("requirements", "--root", tmp_path)
    assert status == code
    assert says in said
