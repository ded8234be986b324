# SPDX-License-Identifier: BSD-2-Clause
"""The structure of a topology file: its published schema, and what departs from it in words of the file's own terms."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mrc.fabric.yaml_tree import KeyPath, Place, YamlTree, key_text, shown
from mrc.untrusted import own_json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

SCHEMA_FILE = "topology.schema.json"
# What a topology file says beside its shape.
_OTHER_KEYS = frozenset({"name", "host_links", "fabric_links", "links"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file. `key` is the path of keys that leads to it."""

    file: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"{self.file}:{self.line}:{self.column}: {key}{self.message}"


def schema_text() -> str:
    """The published schema, JSON Schema 2020-12."""
    return resources.files("mrc.fabric").joinpath(SCHEMA_FILE).read_text()


@cache
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = own_json(schema_text())
    return loaded


def shape_keys() -> tuple[str, ...]:
    """The keys of a topology file that say what shape a fabric has and how large it is: the command line's too."""
    return tuple(key for key in schema()["properties"] if key not in _OTHER_KEYS)


def structure_problems(file: str, tree: YamlTree, against: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Every departure of a document from the schema (`against` another one), one for each place. An empty document is
    an empty mapping."""
    from jsonschema import Draft202012Validator

    document = {} if tree.value is None else tree.value
    errors = list(Draft202012Validator(schema() if against is None else against).iter_errors(document))
    # A key written wrongly is not missing too.
    meant = {(*error.absolute_path, near) for error in errors for _, near in _unknown(error) if near}
    reported: set[KeyPath] = set()
    for error in errors:
        for path, place, message in _explained(error, tree, meant):
            if path not in reported:
                reported.add(path)
                yield Problem(file, place.line, place.column, key_text(path), message)


def _unknown(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Keys that the schema does not have, each with the one that was probably meant, or ""."""
    if error.validator == "additionalProperties":
        said: Any = error.schema
        found: Any = error.instance
        known = list(said["properties"])
        for key in found:
            if key not in known:
                yield key, next(iter(difflib.get_close_matches(key, known, 1)), "")


def _explained(error: ValidationError, tree: YamlTree, meant: set[KeyPath]) -> Iterator[tuple[KeyPath, Place, str]]:
    path = tuple(error.absolute_path)
    said: Any = error.schema
    found: Any = error.instance
    if error.validator == "additionalProperties":
        for key, near in _unknown(error):
            advice = f"did you mean {near}?" if near else f"there are {', '.join(said['properties'])}"
            yield (*path, key), tree.keys[*path, key], f"unknown key, {advice}"
        return
    if error.validator == "required":
        lacking = [key for key in said["required"] if key not in found and (*path, key) not in meant]
        if lacking:
            yield path, tree.values.get(path, Place(1, 1)), f"lacks {', '.join(lacking)}"
        return
    place = tree.values[path]
    yield path, place, f"must be {_expected(said)}, got {_got(found, place)}{_limit(error)}"


def _got(found: Any, place: Place) -> str:
    if isinstance(found, list):
        items = "1 item" if len(found) == 1 else f"{len(found)} items"
        return f"a list of {items}" if found else "an empty list"
    if isinstance(found, dict):
        return "a mapping"
    return shown(place.text) or "nothing"


def _limit(error: ValidationError) -> str:
    """What is wrong with a list where a list was expected."""
    if error.validator == "minItems":
        return f", {error.validator_value} at least"
    if error.validator == "maxItems":
        return f", {error.validator_value} at most"
    return ""


def _expected(said: Mapping[str, Any]) -> str:
    """What a part of the schema asks for, in words."""
    if "enum" in said:
        return f"one of {', '.join(map(str, said['enum']))}"
    if said.get("type") == "object":
        keys = list(said.get("properties", ()))
        return f"a mapping with keys out of {', '.join(keys)}" if keys else "a mapping"
    if "title" not in said and isinstance(said.get("type"), list):
        return f"one of the kinds {', '.join(said['type'])}"
    if said.get("type") == "integer":
        return f"a whole number from {said['minimum']} to {said['maximum']}"
    return f"{said['title']} such as {' or '.join(map(str, said['examples']))}"
