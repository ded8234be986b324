# SPDX-License-Identifier: BSD-2-Clause
"""The public modules, for mkdocstrings: members that are not promised are hidden, sessions are blocks of code.

A comment above or beside a constant or a field says what it is, and is shown as its docstring.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import griffe
from documentation.promised import own_members, plain

_SESSION = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*(?:\n\n\1>>> .*(?:\n\1.*\S.*)*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with each session of the interpreter, up to the next empty line, in a block of its own."""
    return _SESSION.sub(lambda found: f"\n{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


def commented(lines: list[str], first: int, last: int) -> str:
    """The comment above the lines of an assignment, or else the one at the end of it; empty for none.

    Lines are counted from 1.
    """
    above = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("# "):
            break
        above.append(line.strip()[2:])
    if above:
        return "\n".join(reversed(above))
    beside = re.search(r"[^\s#].*?  # (?!noqa|type:)(.+)$", lines[last - 1])
    return beside[1] if beside else ""


class Docstrings(griffe.Extension):
    """What griffe reads of the sources, before it is shown."""

    def __init__(self) -> None:
        self.own = own_members()

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        func.returns = plain(func.returns)
        for each in func.parameters:
            each.annotation = plain(each.annotation)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take the comment of a constant or a field for its docstring."""
        attr.annotation = plain(attr.annotation)
        if attr.docstring is None and attr.lineno is not None:
            said = commented(attr.lines_collection[attr.filepath], attr.lineno, attr.endlineno or attr.lineno)
            if said:
                attr.docstring = griffe.Docstring(said, parent=attr)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Drop what nobody calls by name, and what only the package's own modules use and is not promised."""
        cls.members.pop("__post_init__", None)
        for classes, names in self.own.items():
            if fnmatchcase(cls.path, classes):
                for name in names & set(cls.members):
                    del cls.members[name]
