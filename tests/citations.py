# SPDX-License-Identifier: BSD-2-Clause
"""Read citations of the protocol pages (docs/protocol) and find what they lead to.

A citation names a page and, where it can, a section of it. These are the forms:

- `wire.md section 8`, `wire.md sections 3, 4 and 9`, `wire.md sections 2 to 8`, and `wire.md 8` where room is short;
- `section 8` alone: wire.md is the one page with numbers, and an RFC's number stands right before that of its section;
- `behaviour.md, Responder`, `behaviour.md, Responder and Requestor`, `behaviour.md, Requestor, Loss`: headings;
- `wire.md`: the page as a whole;
- `docs/protocol/wire.md`, `[wire.md](protocol/wire.md#5-aeth)`: links.

Text in double quotes that follows in the same sentence is quoted from there, with `...` for what is left out. After it
a section's name and a colon (`; Requestor: "..."`) go on with another section of the same page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "protocol"
CITING = ("mrc", "tests", "docs", "tools", "benchmarks", "README.md")
BINARY = {".pcap", ".pcapng", ".png", ".gz", ".so", ".pyc", ".o", ".svg"}
NAMES = ("wire", "behaviour", "nscc", "api")

_NUMBERS = r"\d+(?:(?: to |, and |, | and )\d+)*(?![.\d]*\d)"
_PAGE = re.compile(rf"\b(?P<page>{'|'.join(NAMES)})\.md(?P<anchor>#[\w-]+)?")
_FOLDER = re.compile(r"[\w./-]*/$")
_NUMBERED = re.compile(rf",? (?:sections? )?({_NUMBERS})")
_SECTION = re.compile(r"\b[Ss]ections? (?=\d)")
_OF_ANOTHER = re.compile(r"(?:RFC \d+|\(draft-[\w-]+\)|\w\.md),? $")
_NO_FORM = re.compile(r",? ?(?:§|#|\d|sec\b|sec\.|sections?\b|chapters?\b)", re.IGNORECASE)
_HEADING = re.compile(r"^(#+) (?:(\d+)\. )?(.*)$", re.MULTILINE)
_ROW_OR_ITEM = re.compile(r"\s*(?:\||[-*] |#|\d+\. |```)")


@dataclass(frozen=True)
class Fault:
    """A citation that leads nowhere: where it is, what is wrong with it, and what to do."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def normalised(text: str) -> str:
    """Text without case, markup, grades, punctuation between words, and breaks of lines."""
    text = re.sub(r"\]\([^)]*\)", "", text.lower())
    text = re.sub(r'[*`"\\[\]]|\([abc]\)', "", text)
    return " ".join(re.sub(r"[.,;:](?=\s|$)", "", text.replace(" :", ":")).split())


class Page:
    """One protocol page: its sections by number and by name, each with all that stands below its heading."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        headings = list(
            _HEADING.finditer(re.sub(r"```.*?```", lambda code: re.sub(r"(?m)^#", " ", code[0]), text, flags=re.S))
        )
        self.anchors = {re.sub(r"[^\w -]", "", each[0].lstrip("# ").lower()).replace(" ", "-") for each in headings}
        self.whole = normalised(text)
        self.by_number: dict[int, str] = {}
        self.by_name: dict[str, str] = {}
        for at, heading in enumerate(headings):
            level = len(heading[1])
            end = next((each.start() for each in headings[at + 1 :] if len(each[1]) <= level), len(text))
            below = normalised(text[heading.start() : end])
            if heading[2]:
                self.by_number[int(heading[2])] = below
            if level > 1:
                assert heading[3] not in self.by_name, f"{name}.md has two sections {heading[3]!r}"
                self.by_name[heading[3]] = below
        longest_first = sorted(self.by_name, key=len, reverse=True)
        self.names = re.compile(rf"({'|'.join(map(re.escape, longest_first))})(?!\w)")
        self.names_in_any_case = re.compile(self.names.pattern, re.IGNORECASE)


class Reader:
    """Reads paragraphs against the pages it is made with. `faults` and `found` (citations) grow."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self.pages = pages
        self.faults: list[Fault] = []
        self.found = 0
        self.quotes = 0

    def read(self, file: str, text: str) -> None:
        """Read all citations of one file."""
        if not _may_cite(text):
            return
        for line, paragraph in paragraphs(text, python=file.endswith(".py")):
            for fault in self._faults_in(paragraph):
                self.faults.append(Fault(file, line, fault))

    def _faults_in(self, text: str) -> Iterator[str]:
        if not _may_cite(text):
            return
        starts = sorted(
            [(each.start(), each) for each in _PAGE.finditer(text)]
            + [(each.start(), each) for each in _SECTION.finditer(text) if not _OF_ANOTHER.search(text[: each.start()])]
        )
        for place, (start, match) in enumerate(starts):
            self.found += 1
            until = starts[place + 1][0] if place + 1 < len(starts) else len(text)
            shown = text[start : start + 60]
            if match.re is _SECTION:
                page, end = self.pages["wire"], match.end() - 1
            else:
                page, end = self.pages[match["page"]], match.end()
                folder = _FOLDER.search(text[:start])
                if folder and not folder[0].endswith("protocol/"):
                    yield f"{folder[0] + match[0]!r}: the page is docs/protocol/{page.name}.md"
                if match["anchor"]:
                    if match["anchor"][1:] not in page.anchors:
                        yield f"{match[0]!r}: {page.name}.md has no such anchor"
                    continue
            cited, end, fault = self._sections(page, text, end)
            if fault:
                yield f"{shown!r}: {fault}"
                continue
            for sections, quote in self._quotes(page, cited, text[end:until]):
                self.quotes += 1
                if quote is None:
                    yield f"{shown!r}: a quote that does not end"
                elif not any(stands(quote, section) for section in sections):
                    yield f"{quote!r} does not stand in what is cited: {shown!r}"

    def _sections(self, page: Page, text: str, end: int) -> tuple[list[str], int, str]:
        """The texts cited after a page's name, where the citation ends, and what is wrong with it."""
        numbered = _NUMBERED.match(text, end)
        if numbered and page.by_number:
            numbers = _numbers(numbered[1])
            missing = [number for number in numbers if number not in page.by_number]
            fault = f"{page.name}.md has no section {missing[0]}" if missing else ""
            return [page.by_number[number] for number in numbers if number not in missing], numbered.end(), fault
        if _NO_FORM.match(text, end):
            return [], end, "no form of a citation: see tests/citations.py"
        cited: list[str] = []
        while (separator := re.compile(r", | and ").match(text, end)) is not None:
            name = page.names.match(text, separator.end())
            if name is None:
                follows = text[separator.end() : separator.end() + 30]
                if page.names_in_any_case.match(text, separator.end()):
                    return [], end, f"names of sections are written as in the page, not {follows!r}"
                if (
                    follows[:1].isupper()
                    and (cited or separator[0] == ", ")
                    and not follows.startswith(("RFC ", "IBTA "))
                ):
                    return [], end, f"{page.name}.md has no section {follows!r}"
                break
            cited.append(page.by_name[name[1]])
            end = name.end()
        return cited or [page.whole], end, ""

    def _quotes(self, page: Page, cited: list[str], text: str) -> Iterator[tuple[list[str], str | None]]:
        """(texts of the sections cited, quote) for each quote in the same sentence; None is one that does not end."""
        at = parentheses = 0
        while at < len(text):
            other = re.compile(rf"[;.,] {page.names.pattern}: ").match(text, at) if text[at] in ";.," else None
            if other:
                cited, at = [page.by_name[other[1]]], other.end()
                continue
            if text[at] == '"':
                if not _opens(text, at):
                    return
                end = _closing(text, at)
                yield cited, text[at + 1 : end] if end else None
                if not end or (text[end - 1] == "." and text[end + 1 : end + 3] != ' "'):
                    return
                at = end
            elif text[at] == "(":
                parentheses += 1
            elif text[at] == ")":
                parentheses -= 1
                if parentheses < 0:
                    return
            elif text.startswith(". ", at) and text[at + 2 : at + 3] != '"':
                return
            at += 1


def _may_cite(text: str) -> bool:
    return ".md" in text or "ection" in text


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for each in re.split(r", and |, | and ", text):
        first, _, last = each.partition(" to ")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _opens(text: str, at: int) -> bool:
    """Whether the double quote at `at` begins a quote: there is space before it, and none after it."""
    return at > 0 and text[at - 1] in " (" and not text[at + 1 : at + 2].isspace() and at + 1 < len(text)


def _closing(text: str, at: int) -> int:
    """Where the quote that begins at `at` ends, 0 if nowhere; quotes may hold quotes."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] == '"':
            depth += 1 if _opens(text, place) and (depth == 0 or text[place + 1].isalnum()) else -1
            if depth == 0:
                return place
    return 0


def stands(quote: str, section: str) -> bool:
    """Whether all pieces of the quote stand in the section, in their order."""
    at = 0
    for piece in quote.split("..."):
        words = normalised(piece)
        at = section.find(words, at)
        if at < 0:
            return False
        at += len(words)
    return True


def paragraphs(text: str, *, python: bool) -> Iterator[tuple[int, str]]:
    """(number of its first line, paragraph on one line): in Python a docstring, a run of comments or a line of code."""
    lines: list[str] = []
    first, inside = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not python:
            kind = "" if not stripped or _ROW_OR_ITEM.match(line) else "text"
            joins = kind == "text" and inside == "text"
            inside = "text" if stripped and not stripped.startswith(("|", "```")) else ""
        elif inside == '"""':
            joins = True
            inside = "" if stripped.count('"""') % 2 else inside
        elif stripped.count('"""') % 2:
            joins, inside = False, '"""'
        else:
            comment = stripped.startswith("#")
            joins = comment and inside == "#"
            inside = "#" if comment else ""
        if lines and not joins:
            yield first, " ".join(lines)
            lines = []
        if not lines:
            first = number
        lines.append(stripped.replace('"""', " ").strip("# ") if python else stripped)
    if lines:
        yield first, " ".join(lines)


def protocol_pages() -> dict[str, Page]:
    """The four pages of docs/protocol by name."""
    return {name: Page(name, (PAGES / f"{name}.md").read_text()) for name in NAMES}


def citing_files() -> Iterator[Path]:
    """Every text file that may cite a page."""
    for each in CITING:
        top = ROOT / each
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if (
                path.is_file()
                and not path.is_symlink()
                and path.suffix not in BINARY
                and "__pycache__" not in path.parts
            ):
                yield path
