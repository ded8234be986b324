# SPDX-License-Identifier: BSD-2-Clause
"""Every citation of the protocol pages (docs/protocol) leads to a section that exists, and what is quoted stands there.

The forms: `wire.md section 8` or `wire.md 8`; `behaviour.md, Responder`, a heading; after either `: "..."` quotes the
page, with `...` for what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {name: (ROOT / "docs" / "protocol" / f"{name}.md").read_text() for name in ("wire", "behaviour", "nscc", "api")}
SECTIONS = {name: re.findall(r"^#+ (?:(\d+)\. )?(.*)$", text, re.MULTILINE) for name, text in PAGES.items()}
CITING = ("mrc/**/*.py", "tests/**/*.py", "docs/**/*.md", "tools/**/*.py", "benchmarks/**/*.py", "*.md")
_CITATION = re.compile(
    r"\b(wire|behaviour|nscc|api)\.md(?:,? (?:sections? )?(\d+)|, (?=([A-Z].{0,60})))?"
    r'(?:(?:(?!\.md)[^"{]){0,100}?: "([^"]+)")?'
)


def plain(text: str) -> str:
    """Text without case, markup, grades, punctuation between words, and breaks of lines."""
    text = re.sub(r'\]\([^)]*\)|[*`"\\[\]]|\([abc]\)', "", text.lower())
    return " ".join(re.sub(r"[.,;:](?=\s|$)", "", text.replace(" :", ":")).split())


PLAIN = {name: plain(text) for name, text in PAGES.items()}


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
def test_what_leads_nowhere_is_found(text: str, right: bool) -> None:
    assert [not each for each in faults(text)] == [right]
