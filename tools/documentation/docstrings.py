"""Docstrings as Markdown, for mkdocstrings: sessions of the interpreter become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SESSION = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*(?:\n\n\1>>> .*(?:\n\1.*\S.*)*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with each session of the interpreter, up to the next empty line, in a block of its own."""
    return _SESSION.sub(lambda found: f"\n{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Docstrings(griffe.Extension):
    """Every docstring, before it is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
