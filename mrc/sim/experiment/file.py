# SPDX-License-Identifier: BSD-2-Clause
"""Experiment files: YAML held to a published schema, then to what can be simulated.

Every error says file, line, column, key and what would be right, in one line:

    incast.yaml:7:13: workloads[0].senders: must be a whole number from 1 to 1048575, got many
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.structure import Problem, structure_problems
from mrc.fabric.yaml_file import FileProblems, parse_tree, read_text
from mrc.fabric.yaml_tree import KeyPath, Place, YamlTree, key_text
from mrc.sim.experiment import calls
from mrc.sim.experiment.build import Experiment, build
from mrc.sim.experiment.problems import Blame
from mrc.untrusted import own_json

SCHEMA_FILE = "experiment.schema.json"
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)((?:\[[0-9]{1,4}\])*)")
# What does not change what is simulated.
_OF_NO_EFFECT = ("name", "description", "sweep")


def schema_text() -> str:
    """The published schema, JSON Schema 2020-12."""
    return resources.files("mrc.sim.experiment").joinpath(SCHEMA_FILE).read_text()


@cache
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = own_json(schema_text())
    return loaded


class ExperimentFile:
    """A file that follows the schema, with the text of all files it names: everything that decides the results."""

    def __init__(self, name: str, tree: YamlTree, files: Mapping[str, str]) -> None:
        self.path = name
        self.files = dict(files)
        self._tree = tree

    @classmethod
    def read(cls, path: str | Path) -> ExperimentFile:
        """Raises FileProblems for what is not YAML or not of the schema, CallerError for what cannot be read."""
        text = read_text(path, "experiment file")
        tree = parse_tree(text, str(path), schema())
        blame = Blame(str(path), tree)
        files = {}
        for where, name in _named_files(tree.value):
            with blame.at(where):
                files[name] = read_text(Path(path).parent / name, "file")
        return cls(str(path), tree, files)

    @classmethod
    def parsed(cls, text: str, name: str = "experiment.yaml", files: Mapping[str, str] | None = None) -> ExperimentFile:
        """Read an experiment from text at hand; `files` has the texts of those that it names. Raises FileProblems.

        >>> text = "topology: {hosts: 4, hosts_per_leaf: 2}\\nworkloads: [{kind: permutation, bytes: 1MB}]\\n"
        >>> len(ExperimentFile.parsed(text).experiment().setup.flows)
        4
        """
        tree = parse_tree(text, name, schema())
        for where, file in _named_files(tree.value):
            if file not in (files or {}):
                raise Blame(name, tree).problem(where, f"{file} is missing")
        return cls(name, tree, files or {})

    @property
    def document(self) -> dict[str, Any]:
        """What the file says, as plain values."""
        said: dict[str, Any] = self._tree.value
        return said

    @property
    def name(self) -> str:
        """The experiment's name: as the file gives it, or the file's own."""
        return str(self.document.get("name") or re.sub(r"[^A-Za-z0-9_-]", "-", Path(self.path).stem))

    @property
    def digest(self) -> str:
        """Sixteen digits that change with whatever may change the results."""
        said = {key: value for key, value in self.document.items() if key not in _OF_NO_EFFECT}
        text = json.dumps([said, self.files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def blame(self) -> Blame:
        return Blame(self.path, self._tree)

    def changed(self, settings: Mapping[str, Any], places: Mapping[str, Place] | None = None) -> ExperimentFile:
        """The experiment with other values: `{"policies.evs": 32, "workloads.0.bytes": "1MB"}`.

        `places` says where in the file each is from. Raises FileProblems for those that depart from the schema, and for
        keys that lead nowhere.
        """
        places = places or {}
        tree = YamlTree(copy.deepcopy(self._tree.value), dict(self._tree.values), dict(self._tree.keys))
        for key, value in settings.items():
            place = places.get(key, Place(1, 1, str(value)))
            try:
                path = key_path(key)
                _set(tree.value, path, value)
            except CallerError as error:
                raise FileProblems([Problem(self.path, place.line, place.column, key, str(error))]) from None
            for length in range(1, len(path) + 1):
                tree.keys[path[:length]] = tree.values[path[:length]] = place
            for inner in _paths_in(value, path):
                tree.keys[inner] = tree.values[inner] = place
        problems = list(structure_problems(self.path, tree, schema()))
        if problems:
            raise FileProblems(problems)
        for where, name in _named_files(tree.value):
            if name not in self.files:
                raise Blame(self.path, tree).problem(where, f"{name} is not among the files that the experiment names")
        return ExperimentFile(self.path, tree, self.files)

    def with_seed(self, seed: int) -> ExperimentFile:
        """The experiment with another seed, 0..2^32 - 1."""
        document = {key: value for key, value in self.document.items() if key != "sweep"}
        tree = YamlTree({**document, "seed": seed}, self._tree.values, self._tree.keys)
        return ExperimentFile(self.path, tree, self.files)

    def place(self, path: KeyPath) -> Place:
        """Where a value of the file is written."""
        return self._tree.values.get(path, Place(1, 1))

    def experiment(self) -> Experiment:
        """What is simulated. Raises FileProblems."""
        return build(self.name, self.document, self.files, self.blame)

    def to_json(self) -> dict[str, Any]:
        """All of it, as `from_json` reads it: on this host or another."""
        return {"path": self.path, "document": self.document, "files": self.files}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> ExperimentFile:
        """Make a file from what `to_json` returned."""
        return cls(said["path"], YamlTree(said["document"], {(): Place(1, 1)}), said["files"])


def key_path(text: str) -> KeyPath:
    """`workloads.0.bytes`, or `workloads[0].bytes`, as the steps to that value. Raises CallerError."""
    path: list[str | int] = []
    for part in text.split("."):
        if path and re.fullmatch("[0-9]{1,4}", part):
            path.append(int(part))
            continue
        match = _STEP.fullmatch(part)
        if match is None:
            raise CallerError("a key is written like policies.evs or workloads.0.bytes")
        path.append(match[1])
        path += [int(each) for each in re.findall(r"[0-9]+", match[2])]
    if path[0] == "sweep":
        raise CallerError("a sweep cannot change the sweep")
    return tuple(path)


def _set(document: Any, path: KeyPath, value: Any) -> None:
    """Put a value at a path; mappings on the way are made where they are missing."""
    for number, step in enumerate(path):
        last = number == len(path) - 1
        if isinstance(step, int):
            if not isinstance(document, list) or step >= len(document):
                there = len(document) if isinstance(document, list) else 0
                raise CallerError(f"{key_text(path[:number])} has {there} items: no [{step}]")
        elif not isinstance(document, dict):
            raise CallerError(f"{key_text(path[:number])} has no keys")
        if last:
            document[step] = value
        elif isinstance(step, str) and step not in document:
            document[step] = {}
        if not last:
            document = document[step]


def _paths_in(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield (*path, number)
            yield from _paths_in(inner, (*path, number))


def _named_files(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """The files that an experiment names, and where it does."""
    for number, said in enumerate(document["workloads"]):
        if said["kind"] == "matrix":
            yield ("workloads", number, "file"), said["file"]
        elif said["kind"] == "python" and calls.is_file(said["call"]):
            yield ("workloads", number, "call"), said["call"].partition(":")[0]
    for key in ("controller", "ev_choice"):
        name = document.get("policies", {}).get(key, "")
        if ":" in name and calls.is_file(name):
            yield ("policies", key), name.partition(":")[0]
