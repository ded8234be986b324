# SPDX-License-Identifier: BSD-2-Clause
"""YAML files that people write: read whole, held to a schema, every problem of them named by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.structure import Problem, structure_problems
from mrc.fabric.yaml_tree import YamlError, YamlTree, key_text, parse

MOST_BYTES = 1 << 20


class FileProblems(CallerError):
    """A file that cannot be used: every `problems` of it, in the order of lines. The text is one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda each: (each.line, each.column)))
        super().__init__("\n".join(map(str, self.problems)))


def read_text(path: str | Path, kind: str) -> str:
    """Read a file, at most 1 MiB of UTF-8. `kind` names it in errors: "topology file".

    Raises FileProblems for what is no text, CallerError for what cannot be read.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CallerError(f"{kind} {path}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise CallerError(f"{kind} {path}: larger than {MOST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileProblems([Problem(str(path), line, 1, "", "not text in UTF-8")]) from None


def parse_tree(text: str, name: str, schema: Mapping[str, Any] | None = None) -> YamlTree:
    """Read YAML that follows a schema, by default that of topologies. `name` stands for the file in errors.

    Raises FileProblems for what is not YAML or departs from the schema.
    """
    try:
        tree = parse(text)
    except YamlError as error:
        place = error.place
        raise FileProblems([Problem(name, place.line, place.column, key_text(error.key), str(error))]) from None
    problems = list(structure_problems(name, tree, schema))
    if problems:
        raise FileProblems(problems)
    return tree
