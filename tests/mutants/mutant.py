# SPDX-License-Identifier: BSD-2-Clause
"""A mutant: an endpoint of which a small part is wrong, and what it takes to make it so for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mrc import CORE
from mrc.conformance.setup import Setup
from mrc.conformance.target import Session, Target
from mrc.core import COMPILED, INTERPRETED, VARIABLE
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mutants.changes import Change, Edit, changes_of
from mutants.table import Entry, entries

# What makes EVs and addresses: changes of it are for virtual time, whose tester has to follow them.
_ADDRESSING = (
    "mrc.conformance.targets.in_process_paths",
    "mrc.endpoint.paths.formats",
    "mrc.wire.entropy",
    "mrc.wire.usid",
)
# The mutant that is in place in this process, if one is.
_in_place: list[str] = []


def check_interpreted() -> None:
    """Raises CallerError where the datapath of this process is compiled."""
    if CORE.kind == COMPILED:
        raise CallerError(
            f"the datapath is compiled, and endpoints that are wrong on purpose run interpreted: "
            f"set {VARIABLE}={INTERPRETED} in the environment"
        )


@dataclass(frozen=True, slots=True)
class Mutant:
    """`what` is wrong with it in a sentence; `caught_by` the requirements whose cases have to fail it. `changes` of the
    code of `right`, which makes the endpoint without them, make it so."""

    name: str
    what: str
    caught_by: tuple[str, ...]
    changes: Callable[[], Sequence[Change]]
    right: Callable[[], Target]

    def target(self) -> Target:
        return _MutantTarget(self)

    def put(self) -> ExitStack:
        """Make every endpoint of this process wrong until what this returns is closed. Raises StaleMutant where the
        code is another than that it was written for, CallerError while one is in place."""
        if _in_place:
            raise CallerError(f"mutant {_in_place[0]} is in place: one at a time")
        with ExitStack() as back:
            for change in self.changes():
                back.callback(change.put().put)
            _in_place.append(self.name)
            back.callback(_in_place.clear)
            return back.pop_all()

    def take_over(self) -> None:
        """Make every endpoint of this process wrong for good. Raises CallerError for one that exists in virtual time
        only."""
        if any(change.module in _ADDRESSING for change in self.changes()):
            raise CallerError(f"mutant {self.name} has paths that no real fabric knows: run it in virtual time")
        self.put()


class _MutantTarget(Target):
    """It is wrong from the opening of a session until its end."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.name
        self._mutant = mutant
        self._right = mutant.right()

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        with self._mutant.put() as back:
            session: Any = self._right.open(setup, wire, seed)
            session.close = back.pop_all().close
            return session  # type: ignore[no-any-return]


@cache
def read_tables(folder: Path, packages: tuple[str, ...], right: Callable[[], Target]) -> dict[str, Mutant]:
    """The mutants of all tables of a folder by name, in order of the files and of the places in them.

    What a place names is looked for in `packages`, the first one first. Raises CallerError for two of one name.
    """
    found: dict[str, Mutant] = {}
    for table in sorted(folder.glob("*.txt")):
        for entry in entries(table):
            if entry.name in found:
                raise CallerError(f"{table}: there is another mutant {entry.name}")
            found[entry.name] = _mutant(entry, packages, right)
    return found


def _mutant(entry: Entry, packages: tuple[str, ...], right: Callable[[], Target]) -> Mutant:
    edits: list[Edit] = entry.edits

    @cache
    def changes() -> list[Change]:
        return changes_of(entry.name, edits, packages)

    return Mutant(entry.name, entry.what, entry.caught_by, changes, right)
