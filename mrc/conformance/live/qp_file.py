# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs that two operators agreed on by hand, in a YAML file: read, written, and held to its published schema."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from mrc.conformance.setup import Plane, TargetQpTerms, TesterQp
from mrc.errors import CallerError
from mrc.fabric.structure import Problem, structure_problems
from mrc.fabric.yaml_tree import KeyPath, YamlError, YamlTree, key_text, parse
from mrc.untrusted import own_json
from mrc.whole_files import write_whole

VERSION = 1
SCHEMA_FILE = "qp_file.schema.json"
_MOST_BYTES = 1 << 22
_END = ("qpn", "first_psn", "mpr", "max_wimm", "region_va", "region_length", "rkey")


class QpFileError(CallerError):
    """A file that cannot be used; a line of text for each thing wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__("\n".join(map(str, sorted(problems, key=lambda each: (each.line, each.column)))))


@dataclass(frozen=True, slots=True)
class HandPlane:
    """A plane, and in srv6 mode the outer destination of each EV to the target and the tester's leaf."""

    plane: Plane
    destinations: tuple[int, ...] = ()
    tester_leaf: int = 0


@dataclass(frozen=True, slots=True)
class HandQp:
    """A QP. `target` is None as long as its operator has not said what it is; `target_first_psn` is what its first PSN
    is asked to be, None if that does not matter."""

    tester: TesterQp
    target: TargetQpTerms | None
    options: Mapping[str, int | str]
    target_first_psn: int | None = None


@dataclass(frozen=True, slots=True)
class QpFile:
    """The whole file. `name` stands for it in messages."""

    name: str
    mode: str
    path_mtu: int
    planes: tuple[HandPlane, ...]
    qps: tuple[HandQp, ...]
    tester_host: int = 0


@cache
def schema() -> dict[str, Any]:
    """The published schema, JSON Schema 2020-12."""
    loaded: dict[str, Any] = own_json(resources.files(__package__).joinpath(SCHEMA_FILE).read_text())
    return loaded


def read_qp_file(path: Path, *, filled_in: bool = True) -> QpFile:
    """Raises QpFileError for what is not of the schema, CallerError for what cannot be read.

    With `filled_in` False what is the target's to say may be missing.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(f"{path}: cannot be read: {error}") from None
    if len(text) > _MOST_BYTES:
        raise CallerError(f"{path}: larger than {_MOST_BYTES} bytes")
    try:
        tree = parse(text)
    except YamlError as error:
        place = error.place
        raise QpFileError([Problem(str(path), place.line, place.column, key_text(error.key), str(error))]) from None
    problems = list(structure_problems(str(path), tree, schema() if filled_in else _template_schema()))
    if not problems:
        problems = list(_meaning(str(path), tree, filled_in))
    if problems:
        raise QpFileError(problems)
    return _file(str(path), tree.value)


@cache
def _template_schema() -> dict[str, Any]:
    """The schema of a file in which the target's values are missing."""
    loose: dict[str, Any] = own_json(json.dumps(schema()))
    loose["properties"]["planes"]["items"]["required"] = ["plane", "tester"]
    loose["properties"]["qps"]["items"]["required"] = ["tester"]
    return loose


def _meaning(name: str, tree: YamlTree, filled_in: bool) -> Iterable[Problem]:
    """What no schema can say."""

    def problem(path: KeyPath, message: str) -> Problem:
        place = tree.values[path]
        return Problem(name, place.line, place.column, key_text(path), message)

    seen: dict[tuple[str, int], int] = {}
    for number, plane in enumerate(tree.value["planes"]):
        at: KeyPath = ("planes", number)
        versions = set()
        for key in ("tester", "target"):
            if key in plane:
                try:
                    versions.add(ipaddress.ip_address(plane[key]).version)
                except ValueError:
                    yield problem((*at, key), "must be an IP address")
        if len(versions) > 1:
            yield problem((*at, "target"), "must be of the same IP version as the tester's")
        if filled_in and tree.value["mode"] == "srv6":
            found = plane.get("destinations", [])
            if len(found) != len(plane["evs"]):
                yield problem((*at, "evs"), f"has {len(plane['evs'])} EVs and destinations {len(found)} addresses")
        if filled_in and not plane["evs"]:
            yield problem((*at, "evs"), "must name an EV")
    for number, qp in enumerate(tree.value["qps"]):
        for key in ("tester", "target"):
            if key in qp:
                before = seen.setdefault((key, qp[key]["qpn"]), number)
                if before != number:
                    yield problem(("qps", number, key, "qpn"), f"is that of qps[{before}] already")


def _file(name: str, said: Mapping[str, Any]) -> QpFile:
    planes = tuple(
        HandPlane(
            Plane(
                each["plane"],
                each["tester"],
                each.get("target", ""),
                tuple(each.get("evs", ())),
                tuple(each.get("target_evs", ())),
            ),
            tuple(int(ipaddress.ip_address(address)) for address in each.get("destinations", ())),
            each.get("tester_leaf", 0),
        )
        for each in said["planes"]
    )
    qps = tuple(_qp(each, said["path_mtu"]) for each in said["qps"])
    return QpFile(name, said["mode"], said["path_mtu"], planes, qps, said.get("tester_host", 0))


def _qp(said: Mapping[str, Any], path_mtu: int) -> HandQp:
    agreed = frozenset(said.get("agreed", ()))
    tester = TesterQp(**said["tester"], capabilities=agreed)
    target = None
    if "target" in said:
        target = TargetQpTerms(**said["target"], path_mtu=path_mtu, agreed=agreed, tester=tester)
    return HandQp(tester, target, dict(said.get("options", {})), said.get("target_first_psn"))


# ---------------------------------------------------------------------- writing


def write_qp_file(file: QpFile, path: Path, notes: Sequence[str] = ()) -> None:
    """Write it, with a note for each of the first QPs; what the target has not said is left out. Raises
    SystemRefused."""
    write_whole(path, qp_file_text(file, notes))


def qp_file_text(file: QpFile, notes: Sequence[str] = ()) -> str:
    """The text that `write_qp_file` writes."""
    lines = [f"version: {VERSION}", f"mode: {file.mode}", f"path_mtu: {file.path_mtu}"]
    if file.mode == "srv6":
        lines.append(f"tester_host: {file.tester_host}")
    lines.append("planes:")
    for each in file.planes:
        plane = each.plane
        lines += [f"  - plane: {plane.number}", f'    tester: "{plane.tester}"']
        if file.mode == "srv6":
            lines.append(f"    tester_leaf: {each.tester_leaf}")
        if plane.target:
            lines.append(f'    target: "{plane.target}"')
            lines += [f"    {name}: {_hexes(evs)}" for name, evs in _evs_of(plane)]
        if each.destinations:
            addresses = ", ".join(f'"{ipaddress.IPv6Address(address)}"' for address in each.destinations)
            lines.append(f"    destinations: [{addresses}]")
    lines.append("qps:")
    for number, qp in enumerate(file.qps):
        note = f"  # {notes[number]}" if number < len(notes) else ""
        lines.append(f"  - agreed: [{', '.join(sorted(qp.tester.capabilities))}]{note}")
        if qp.options:
            lines.append(f"    options: {json.dumps(dict(qp.options))}")
        if qp.target_first_psn is not None:
            lines.append(f"    target_first_psn: {qp.target_first_psn:#x}")
        lines.append(f"    tester: {_end(qp.tester)}")
        if qp.target is not None:
            lines.append(f"    target: {_end(qp.target)}")
    return "\n".join(lines) + "\n"


def _evs_of(plane: Plane) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("evs", plane.evs), ("target_evs", plane.target_evs)


def _hexes(numbers: Iterable[int]) -> str:
    return f"[{', '.join(f'{number:#010x}' for number in numbers)}]"


def _end(end: TesterQp | TargetQpTerms) -> str:
    values = ", ".join(f"{name}: {getattr(end, name):#x}" for name in _END)
    return f"{{{values}}}"
