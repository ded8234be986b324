# SPDX-License-Identifier: BSD-2-Clause
"""What the documentation site must not get wrong and a build does not show: links, tables, code, members.

tools/site fails for a page that is not in the navigation and a link inside docs that leads nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

import griffe
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from documentation import commands, docstrings, markdown


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[`Sacks`](../mrc/endpoint/responder/answers.py)", "Sacks (`mrc/endpoint/responder/answers.py`)"),
        ("[changes](../CHANGELOG.md)", "[changes](changelog.md)"),
        ("[the lab](lab.md#names)", "[the lab](lab.md#names)"),
        ("![drawing](../mrc/x.svg)", "![drawing](../mrc/x.svg)"),
        ("`[code](../x)`", "`[code](../x)`"),
    ],
)
def test_links_out_of_docs_become_names(link: str, shown: str) -> None:
    assert markdown.inside(f"See {link}.", "lab.md") == f"See {shown}."


def test_a_link_to_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/lab.md links to ../mrc/gone.py: there is no mrc/gone.py"):
        markdown.inside("[x](../mrc/gone.py)", "lab.md")


def test_text_is_shown_as_it_is_written() -> None:
    """Help is no markup, lists are lists for Python-Markdown too, a bar in code ends no cell of a table."""
    assert list(commands.text("Only <one> *link* or [x]: `a_b`.")) == [r"Only &lt;one> \*link\* or \[x\]: `a_b`."]
    written = "Three:\n- one\n  - inner\n- two\n```\na:\n- b\n```\n"
    assert markdown.spaced(written) == "Three:\n\n- one\n    - inner\n- two\n```\na:\n- b\n```\n"
    assert markdown.unescaped("| `a\\|b` | c \\| d |\n\n`e\\|f`\n") == "| `a|b` | c \\| d |\n\n`e\\|f`\n"
    assert docstrings.fenced("Text.\n\n>>> 3\n3\n\nMore.") == "Text.\n\n\n```pycon\n>>> 3\n3\n```\n\nMore."


def test_members_that_are_not_promised_are_hidden() -> None:
    module = griffe.Module("cq", parent=griffe.Module("verbs", parent=griffe.Module("mrc")))
    queue = griffe.Class("CQ", parent=module)
    for name in ("poll", "push", "__post_init__"):
        queue[name] = griffe.Function(name)
    docstrings.Docstrings().on_class_members(cls=queue)
    assert list(queue.members) == ["poll"]
