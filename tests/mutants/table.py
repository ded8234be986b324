# SPDX-License-Identifier: BSD-2-Clause
"""Tables of mutants, the files beside this one that end in `.txt`: each paragraph is a mutant.

    every_mark_decreases: MRC-CC-07
    Decreases follow each other with each mark.
    Nscc._multiplicative_decrease
    - now - self._last_decrease > self._base_rtt
    + True

Its name and the requirements whose cases have to fail it; what is wrong with it; the function that is changed, and what
becomes of its text. That of `-` is there exactly once; where there is none, that of `+` goes before all that the
function does. Of several lines those after the first are indented as the line in which the text begins. Further changes
follow, in the same function or below the name of another. A line that begins with `#` is a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants.changes import Edit

_COMMENT, _WAS, _NOW = "#", "- ", "+ "


@dataclass(frozen=True, slots=True)
class Entry:
    """A paragraph of a table."""

    name: str
    what: str
    caught_by: tuple[str, ...]
    edits: list[Edit]


def entries(table: Path) -> Iterator[Entry]:
    """Those of a file, in order."""
    for paragraph in table.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in paragraph.strip("\n").split("\n") if not line.startswith(_COMMENT)]
        if lines:
            title, what, *changed = lines
            name, _, requirements = title.partition(": ")
            yield Entry(name, what, tuple(requirements.split()), list(_edits(changed)))


def _edits(lines: list[str]) -> Iterator[Edit]:
    place = ""
    was: list[str] = []
    now: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(_WAS):
            was.append(line.removeprefix(_WAS))
        elif line.startswith(_NOW):
            now.append(line.removeprefix(_NOW))
        else:
            place = line
        if now and not following.startswith(_NOW):
            yield Edit(place, "\n".join(was), "\n".join(now))
            was, now = [], []
