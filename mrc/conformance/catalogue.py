"""All cases, those a pattern picks, and the requirements that have none."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

import mrc.conformance.cases
from mrc.conformance.case import REGISTRY, Case
from mrc.conformance.missing import REASONS
from mrc.conformance.requirements import GROUPS, Requirement, ids_in, requirements


@dataclass(frozen=True, slots=True)
class Missing:
    """A requirement without a case, and why; `reason` is empty where nobody has said so."""

    requirement: Requirement
    reason: str


@cache
def catalogue() -> tuple[Case, ...]:
    """Every case, by group, then in the order of the requirements."""
    package = mrc.conformance.cases
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    order = {name: position for position, name in enumerate(requirements())}
    return tuple(
        sorted(REGISTRY.values(), key=lambda each: (GROUPS.index(each.group), order[each.requirement.id], each.id))
    )


def chosen(cases: Sequence[Case], patterns: Sequence[str], groups: Sequence[str] = ()) -> list[Case]:
    """The cases that match any of the patterns (all, without any) and are of one of the groups (any, without any).

    A pattern is a case id with `*` and `?`; one without them also takes all ids that go on from it: MRC-SACK,
    MRC-SACK-09.
    """
    return [
        each
        for each in cases
        if (not patterns or any(_matches(each, pattern) for pattern in patterns))
        and (not groups or each.group in groups)
    ]


def _matches(each: Case, pattern: str) -> bool:
    return fnmatchcase(each.id, pattern) or each.id.startswith((f"{pattern}-", f"{pattern}/"))


@cache
def missing() -> tuple[Missing, ...]:
    """The requirements without a case, in the order of the document."""
    covered = {each.requirement.id for each in catalogue()}
    reasons = {each: reason for ids, reason in REASONS.items() for each in ids_in(ids)}
    return tuple(Missing(each, reasons.get(each.id, "")) for each in requirements().values() if each.id not in covered)
