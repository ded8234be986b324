# SPDX-License-Identifier: BSD-2-Clause
"""Programs that outlive their lab: what is written down so that they can be named and ended when the lab is gone.

A record is what the lab knew of its namespaces. They live on with the programs, tag and identity unchanged, so the
proof whose program it is stays the same. A record goes with the last program that it is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mrc.lab import processes, state
from mrc.lab.processes import Identity, LabProcess
from mrc.untrusted import foreign_bytes, parse_json

_MOST_BYTES = 1 << 20
_PREFIX = ".left-"


@dataclass(frozen=True, slots=True)
class Record:
    """The namespaces of a lab that was taken down, and the file that says so."""

    path: Path
    name: str
    tag: str
    namespaces: dict[str, Identity]


def keep(lab: state.LabState) -> None:
    """Write down the namespaces of a lab whose names are gone, if a program still runs in one of them.

    Where it cannot be written the lab goes all the same: `mrc lab down` has named the programs.
    """
    if not processes.running(lab.namespaces, lab.tag):
        return
    path = state.STATE_DIRECTORY / f"{_PREFIX}{lab.tag.rpartition(' ')[2]}.json"
    with suppress(OSError):
        path.write_text(json.dumps({"name": lab.name, "tag": lab.tag, "namespaces": lab.namespaces}))


def running(name: str) -> list[LabProcess]:
    """Return the programs that outlived labs of this name. Records without any are removed."""
    return [program for record in _records(name) for program in _of(record)]


def end(name: str, grace_s: float = 5.0) -> list[LabProcess]:
    """End the programs that outlived labs of this name, as `Lab.end_programs` does; return those that ended."""
    ended = [each for record in _records(name) for each in processes.end(record.namespaces, record.tag, grace_s)]
    running(name)
    return ended


def forget_ended() -> None:
    """Remove the records of all labs whose programs have ended."""
    for record in _records():
        _of(record)


def _of(record: Record) -> list[LabProcess]:
    found = processes.running(record.namespaces, record.tag)
    if not found:
        with suppress(OSError):
            record.path.unlink(missing_ok=True)
    return found


def _records(name: str | None = None) -> Iterator[Record]:
    for path in sorted(state.STATE_DIRECTORY.glob(f"{_PREFIX}*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            document = parse_json(foreign_bytes(path, _MOST_BYTES), most_bytes=_MOST_BYTES)
            spaces = {node: (int(device), int(inode)) for node, (device, inode) in document["namespaces"].items()}
            if name in (None, document["name"]):
                yield Record(path, document["name"], document["tag"], spaces)
