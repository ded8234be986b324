# SPDX-License-Identifier: BSD-2-Clause
"""Every citation of the protocol pages leads to a section that exists, and what is quoted stands there."""

from __future__ import annotations

import pytest
from citations import PAGES, ROOT, Page, Reader, citing_files, protocol_pages

WIRE = Page("wire", "# Wire\n\n## 1. Stack\n\nThe port is **4791** (C).\n\n## 2. Opcodes\n\n| 0xC6 | First |\n")
BEHAVIOUR = Page(
    "behaviour",
    "# Behaviour\n\n## Requestor\n\n### Sending\n\nIt sends while it may; work completes\nin order.\n\n"
    '### Loss\n\n0 means "not in use", never "closed".\n\n## Retry budget\n\nIt belongs to a PSN.\n',
)
EMPTY = Page("nscc", "## Nothing\n"), Page("api", "## Nothing\n")


def _reader(text: str, file: str = "docs/page.md") -> Reader:
    reader = Reader({page.name: page for page in (WIRE, BEHAVIOUR, *EMPTY)})
    reader.read(file, text)
    return reader


def test_every_citation_leads_to_a_section_and_every_quote_stands_there() -> None:
    reader = Reader(protocol_pages())
    for path in citing_files():
        if path.name not in ("citations.py", "test_citations.py"):
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            reader.read(str(path.relative_to(ROOT)), text)
    assert not reader.faults, "\n".join(map(str, reader.faults))
    assert reader.found > 900
    assert reader.quotes > 250


def test_nothing_else_has_the_name_of_a_protocol_page() -> None:
    others = {path.name for path in (ROOT / "docs").rglob("*.md") if path.parent != PAGES}
    assert not others & {path.name for path in PAGES.glob("*.md")}


@pytest.mark.parametrize(
    "text",
    [
        "wire.md",
        "wire.md's tables, by hand",
        "see wire.md section 1.",
        "wire.md sections 1 and 2, by hand",
        "wire.md sections 1, 2",
        "wire.md, sections 1 to 2: bytes",
        "| must | wire.md 2 |",
        "(wire.md section 1, RFC 8754)",
        "RFC 8754 section 2.1.2, RFC 6298, section 7",
        "Section 2 of wire.md",
        "behaviour.md, Requestor",
        "behaviour.md, Requestor and Retry budget",
        "(behaviour.md, Requestor, Loss; wire.md 2)",
        "behaviour.md, Loss, as it is",
        "behaviour.md, Retry budget and its end",
        "docs/protocol/wire.md, [wire.md](protocol/wire.md#1-stack)",
        'behaviour.md: "It belongs to a PSN"',
        'behaviour.md, Requestor: "it sends ... in order." "Work completes in order".',
        'behaviour.md, Sending: here "Sends while it may; WORK completes"',
        'behaviour.md, Requestor: "work completes"; Retry budget: "it belongs". "It belongs" too',
        'behaviour.md, Loss: "0 means "not in use", never "closed"". So says "nobody".',
        '(behaviour.md, Loss; LossConfig). "Not from there."',
        'wire.md section 1: "the port is 4791"; Section 2: "0xC6 | First".',
        'behaviour.md, Retry budget: no (more) than "belongs to a PSN".',
    ],
)
def test_what_is_a_citation(text: str) -> None:
    assert _reader(text).faults == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("wire.md section 3", "no section 3"),
        ("wire.md sections 1 to 3", "no section 3"),
        ("wire.md 7", "no section 7"),
        ("as in section 12", "no section 12"),
        ("Section 2.1.2.1: the HMAC", "no form"),
        ("wire.md § 1", "no form"),
        ("wire.md sec. 1", "no form"),
        ("wire.md section one", "no form"),
        ("wire.md, Opcodes and Loss", "no section 'Loss"),
        ("behaviour.md section 1", "no form"),
        ("behaviour.md, Losses", "no section 'Losses"),
        ("behaviour.md, loss", "as in the page"),
        ("behaviour.md, Requestor and Lost", "no section 'Lost"),
        ("docs/behaviour.md", "docs/protocol/behaviour.md"),
        ("protocol/wire.md#3-icrc", "no such anchor"),
        ('behaviour.md, Sending: "It belongs to a PSN"', "does not stand"),
        ('behaviour.md, Requestor: "in order ... it sends"', "does not stand"),
        ('behaviour.md, Requestor: "it sends". "Not from there".', "does not stand"),
        ('behaviour.md, Requestor: "it sends"; Retry budget: "it sends"', "does not stand"),
        ('wire.md section 1: port "4791"; section 2: "4791"', "does not stand"),
    ],
)
def test_what_is_none(text: str, complaint: str) -> None:
    (fault,) = _reader(text).faults
    assert complaint in fault.what


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('x = 1\n\ndef f():\n    """Ends\n    (behaviour.md,\n    Losses)."""\n', 4),
        ("x = 1\n# one\n# behaviour.md,\n# Losses\n", 2),
        ("x = 1  # behaviour.md, Losses\n# and more\n", 1),
        ('x = "as in behaviour.md, Losses"\n', 1),
    ],
    ids=["docstring", "comments", "comment", "string"],
)
def test_citations_go_on_in_the_next_line(text: str, line: int) -> None:
    (fault,) = _reader(text, "mrc/x.py").faults
    assert str(fault).startswith(f"mrc/x.py:{line}: 'behaviour.md, Losses")
