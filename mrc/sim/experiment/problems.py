# SPDX-License-Identifier: BSD-2-Clause
"""Where a file says what is wrong: errors of the code, put at the key they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.structure import Problem
from mrc.fabric.yaml_file import FileProblems
from mrc.fabric.yaml_tree import KeyPath, Place, YamlTree, key_text

_WORD = re.compile(r"[a-z][a-z_]*")
# Fields of records, and the keys they come from where those are called otherwise.
_KEYS = {
    "rate_bps": "rate",
    "delay_ns": "delay",
    "queue_bytes": "queue",
    "ecn_low_bytes": "ecn_low",
    "ecn_high_bytes": "ecn_high",
    "trim_at_bytes": "trim_at",
    "trim_to_bytes": "trim_to",
    "end_ns": "end",
    "sample_ns": "sample",
}


class Blame:
    """Makes the one problem that stands for an error. `tree` knows where each key of the file `name` is."""

    def __init__(self, name: str, tree: YamlTree) -> None:
        self.name = name
        self._tree = tree

    def problem(self, path: KeyPath, message: str, *, at_key: bool = False) -> FileProblems:
        """An error at a value, at its key with `at_key`, or as near as the file has it."""
        place = (self._tree.keys if at_key else self._tree.values).get(path)
        nearest = path
        while place is None and nearest:
            nearest = nearest[:-1]
            place = self._tree.values.get(nearest)
        place = place or Place(1, 1)
        return FileProblems([Problem(self.name, place.line, place.column, key_text(path), message)])

    @contextmanager
    def at(self, path: KeyPath, *, keys: Mapping[str, str] | None = None) -> Iterator[None]:
        """Turn a CallerError of the block into one at `path`, or at the key below it that the error names first."""
        try:
            yield
        except FileProblems:
            raise
        except CallerError as error:
            text = str(error)
            for field, key in {**_KEYS, **(keys or {})}.items():
                text = re.sub(rf"\b{field}\b", key, text)
            named = next((word for word in _WORD.findall(text) if (*path, word) in self._tree.values), None)
            if named is None:
                raise self.problem(path, text) from error.__cause__
            raise self.problem((*path, named), text.removeprefix(f"{named} ")) from error.__cause__


def said_at(document: Any, path: KeyPath) -> Any:
    """The value at a path that the document has."""
    for step in path:
        document = document[step]
    return document
