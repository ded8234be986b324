# SPDX-License-Identifier: BSD-2-Clause
"""What the documentation site has, without building it: pages, commands, options and public modules, all of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import griffe
import pytest
import yaml

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from documentation import commands, docstrings, markdown, pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDED = (DOCS / "api/commands.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages.generated()


def in_navigation(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for below in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from in_navigation(below)


def test_every_page_is_in_the_navigation_once(made: dict[str, str]) -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    written = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    listed = list(in_navigation(pages.navigation(config["nav"])))
    assert sorted(listed) == sorted([*written, *made])


def test_no_page_stands_for_its_section() -> None:
    # With navigation.indexes Material takes a README for the page of its section: studies and notebooks have no entry.
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert "navigation.tabs" in config["theme"]["features"]
    assert "navigation.indexes" not in config["theme"]["features"]


def test_every_recorded_command_and_option_is_in_the_reference(made: dict[str, str]) -> None:
    # docs/api/commands.txt is held to the commands by tests/test_public_api.py.
    missing, section, count = [], "", 0
    for line in RECORDED.splitlines():
        if not line.startswith(" "):
            words = re.match(r"mrc(?: [a-z][a-z-]*)*(?= |$)", line)
            assert words is not None
            section = section_of(words[0], made)
            continue
        for name in re.findall(r"--?[A-Za-z][\w-]*", line.split(", required")[0].split(" [")[0]):
            count += 1
            if f"`{name}" not in section and f" {name}" not in section:
                missing.append(f"{words[0]} {name}")
    assert not missing
    assert count > 400


def section_of(command: str, made: dict[str, str]) -> str:
    """The part of the reference under the heading of a command, up to the next heading."""
    words = command.split()
    page = made[f"commands/{words[1] if len(words) > 1 else 'index'}.md"]
    heading = re.search(rf"^#+ `{command}` .*$", page, re.MULTILINE) if len(words) > 1 else re.match("# Commands", page)
    assert heading is not None, f"{command} has no heading"
    return re.split(r"^#+ ", page[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_public_module_has_a_page(made: dict[str, str]) -> None:
    recorded = re.findall(r"^mrc\S*$", (DOCS / "api/surface.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(recorded) > 40
    for name in recorded:
        assert f"\n::: {name}\n" in made[f"api/{name}.md"]


def test_text_of_a_help_is_not_taken_for_markup() -> None:
    (text,) = commands.text("Only <one> *link* of a_b or [x]: `a_b`.")
    assert text == r"Only &lt;one> \*link\* of a\_b or \[x\]: `a_b`."


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[`Sacks`](../mrc/endpoint/responder/answers.py)", "Sacks (`mrc/endpoint/responder/answers.py`)"),
        ("[answers.py](../mrc/endpoint/responder/answers.py)", "`mrc/endpoint/responder/answers.py`"),
        ("[changes](../CHANGELOG.md)", "[changes](changelog.md)"),
        ("[the pages](protocol)", "the pages (`docs/protocol`)"),
        ("[the lab](lab.md#names)", "[the lab](lab.md#names)"),
        ("![drawing](../mrc/x.svg)", "![drawing](../mrc/x.svg)"),
        ("[site](https://semver.org/)", "[site](https://semver.org/)"),
        ("`[code](../x)`", "`[code](../x)`"),
    ],
)
def test_links_out_of_docs_become_names(link: str, shown: str) -> None:
    assert markdown.inside(f"See {link}.", "lab.md") == f"See {shown}."


def test_a_link_to_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/lab.md links to ../mrc/gone.py: there is no mrc/gone.py"):
        markdown.inside("[x](../mrc/gone.py)", "lab.md")


def test_lists_are_lists_for_python_markdown_too() -> None:
    written = "Three:\n- one\n  - inner\n- two\n  more\n```\na:\n- b\n```\n"
    assert markdown.spaced(written) == "Three:\n\n- one\n    - inner\n- two\n  more\n```\na:\n- b\n```\n"


def test_a_bar_in_code_in_a_table_is_no_end_of_a_cell_and_has_no_backslash() -> None:
    written = "| `a\\|b` | c \\| d |\n\n`e\\|f`\n\n```\n| `g\\|h` |\n```\n"
    assert markdown.unescaped(written) == "| `a|b` | c \\| d |\n\n`e\\|f`\n\n```\n| `g\\|h` |\n```\n"


def test_short_words_of_code_are_kept_on_a_line() -> None:
    longest = "x" * 26
    assert markdown.whole("<code>--depth</code>") == '<code class="whole">--depth</code>'
    assert markdown.whole(f"<code>{longest}</code>") == f'<code class="whole">{longest}</code>'
    for kept in ("<code>mrc top</code>", f"<code>{longest}x</code>", "<code><span>x</span></code>"):
        assert markdown.whole(kept) == kept


def test_sessions_in_docstrings_are_blocks_of_code() -> None:
    assert docstrings.fenced("Text.\n\n>>> 1 + 1\n2\n\n>>> 3\n3\n\nMore.") == (
        "Text.\n\n\n```pycon\n>>> 1 + 1\n2\n\n>>> 3\n3\n```\n\nMore."
    )


def test_a_comment_of_a_constant_is_its_docstring() -> None:
    lines = [
        "# Two",
        "# lines.",
        "FIRST = 1",
        "",
        "SECOND = 2  # beside it",
        "THIRD = (",
        "    3,",
        ")  # behind it",
        "FOURTH = 4",
    ]
    said = [docstrings.commented(lines, *span) for span in ((3, 3), (5, 5), (6, 8), (9, 9))]
    assert said == ["Two\nlines.", "beside it", "behind it", ""]
    assert docstrings.commented(["X = 1  # noqa: E501"], 1, 1) == ""


def test_members_that_are_not_promised_are_hidden() -> None:
    module = griffe.Module("cq", parent=griffe.Module("verbs", parent=griffe.Module("mrc")))
    queue = griffe.Class("CQ", parent=module)
    for name in ("poll", "push", "__post_init__"):
        queue[name] = griffe.Function(name)
    docstrings.Docstrings().on_class_members(cls=queue)
    assert list(queue.members) == ["poll"]


@pytest.mark.parametrize("drawing", sorted((DOCS / "concepts").glob("*.svg")), ids=lambda path: path.name)
def test_a_drawing_of_a_concept_reads_in_light_and_dark(drawing: Path) -> None:
    text = drawing.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert "prefers-color-scheme: dark" in text
    assert root.get("role") == "img"
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    # Only classes have colours, so that both schemes apply to everything.
    assert not re.search(r'\b(?:fill|stroke)="#', text)
