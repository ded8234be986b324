# SPDX-License-Identifier: BSD-2-Clause
"""All cases, those a pattern picks, and the requirements that have none."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType

import mrc.conformance.cases
from mrc.conformance.case import REGISTRY, Case
from mrc.conformance.missing import REASONS
from mrc.conformance.requirements import GROUPS, Requirement, ids_in, requirements

# How alike a mistyped id is to the one that was meant, from 0 to 1.
_NEAR = 0.65


@dataclass(frozen=True, slots=True)
class Missing:
    """A requirement without a case, and why; `reason` is empty where nobody has said so."""

    requirement: Requirement
    reason: str


@cache
def catalogue() -> tuple[Case, ...]:
    """Every case, by group, then in the order of the requirements."""
    return collected(mrc.conformance.cases, REGISTRY, requirements())


def collected(package: ModuleType, registry: Mapping[str, Case], known: Mapping[str, Requirement]) -> tuple[Case, ...]:
    """What the modules of a package put into a registry, by group, then in the order of the requirements."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    order = {name: position for position, name in enumerate(known)}
    return tuple(
        sorted(registry.values(), key=lambda each: (GROUPS.index(each.group), order[each.requirement.id], each.id))
    )


def chosen(cases: Sequence[Case], patterns: Sequence[str], groups: Sequence[str] = ()) -> list[Case]:
    """The cases that match any of the patterns (all, without any) and are of one of the groups (any, without any).

    A pattern is a case id with `*`, `?` and `[...]`, or the beginning of one: MRC-SACK, MRC-SACK-0, MRC-SACK-09. One
    that ends before a case's variant takes all variants: MRC-SACK-0? takes MRC-SACK-09/wrap. =MRC-SACK-09 is that case
    alone.
    """
    picked = {each.id for pattern in patterns for each in _picked(cases, pattern)}
    return [each for each in cases if (not patterns or each.id in picked) and (not groups or each.group in groups)]


def _picked(cases: Sequence[Case], pattern: str) -> list[Case]:
    """A pattern that is whole words of an id, such as MRC-RETRY-05/long, leaves out .../longest, which goes on."""
    if pattern.startswith("="):
        return [each for each in cases if each.id == pattern[1:]]
    words = (pattern, f"{pattern}-*", f"{pattern}/*")
    whole = [each for each in cases if any(fnmatchcase(each.id, one) for one in words)]
    return whole or [each for each in cases if each.id.startswith(pattern)]


def near_ids(cases: Sequence[Case], pattern: str) -> list[str]:
    """Up to three ids of cases, or beginnings such as MRC-SACK, that a mistyped pattern may mean, nearest first."""
    families = (each.requirement.id.rpartition("-")[0] for each in cases)
    known = list(dict.fromkeys([*families, *(each.id for each in cases)]))
    return get_close_matches(pattern.upper().removeprefix("="), known, 3, _NEAR)


@cache
def missing() -> tuple[Missing, ...]:
    """The requirements without a case, in the order of the document."""
    return without_case(requirements(), catalogue(), REASONS)


def without_case(
    known: Mapping[str, Requirement], cases: Sequence[Case], given: Mapping[str, str]
) -> tuple[Missing, ...]:
    """Those of the requirements that none of the cases is about, with the reasons that are given by id or range."""
    covered = {each.requirement.id for each in cases}
    reasons = {each: reason for ids, reason in given.items() for each in ids_in(ids)}
    return tuple(Missing(each, reasons.get(each.id, "")) for each in known.values() if each.id not in covered)
