"""The public modules, for mkdocstrings: members that are not promised are hidden, sessions are blocks of code."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import griffe
from documentation.promised import own_members

_SESSION = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*(?:\n\n\1>>> .*(?:\n\1.*\S.*)*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with each session of the interpreter, up to the next empty line, in a block of its own."""
    return _SESSION.sub(lambda found: f"\n{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Docstrings(griffe.Extension):
    """What griffe reads of the sources, before it is shown."""

    def __init__(self) -> None:
        self.own = own_members()

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Drop the members that only the package's own modules use: they are not promised."""
        for classes, names in self.own.items():
            if fnmatchcase(cls.path, classes):
                for name in names & set(cls.members):
                    del cls.members[name]
