# SPDX-License-Identifier: BSD-2-Clause
"""A case: one requirement, or one side of it, and the script that shows whether a target meets it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrc.conformance.bench import Bench
from mrc.conformance.requirements import Requirement, requirements
from mrc.conformance.setup import Setup
from mrc.errors import CallerError

Script = Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Case:
    """`id` is the requirement's, with `/what` behind it where one requirement takes several cases.

    `about` says what the script shows, `look_at` where to look when it fails.
    """

    id: str
    requirement: Requirement
    group: str
    setup: Setup
    script: Script
    about: str
    look_at: str
    # What the script is given.
    bench: type[Bench] = Bench

    @property
    def source(self) -> str:
        """The script's text."""
        return textwrap.dedent(inspect.getsource(self.script))


REGISTRY: dict[str, Case] = {}


def case(case_id: str, *, look_at: str, group: str | None = None, **setup: Any) -> Callable[[Script], Script]:
    """Make a function a case of the requirement `case_id` names. Its docstring says what it shows.

    Further arguments are those of `Setup`; `agreed` and `without`
    may be any collection. Raises CallerError for an id that is taken
    or belongs to no requirement.
    """
    requirement = requirements().get(case_id.partition("/")[0])
    if requirement is None:
        raise CallerError(f"case {case_id}: no such requirement in docs/contributing/requirements.md")
    for name in setup.keys() & {"agreed", "without"}:
        setup[name] = frozenset(setup[name])

    def register(script: Script) -> Script:
        add(REGISTRY, case_id, requirement, group or requirement.group, Setup(**setup), script, look_at)
        return script

    return register


def add(
    registry: dict[str, Case],
    case_id: str,
    requirement: Requirement,
    group: str,
    setup: Setup,
    script: Callable[..., None],
    look_at: str,
    bench: type[Bench] = Bench,
) -> None:
    """Put a case into a registry. Raises CallerError for an id that is taken and for a script without a docstring."""
    if case_id in registry:
        raise CallerError(f"case {case_id} is there twice")
    about = " ".join((script.__doc__ or "").split())
    if not about:
        raise CallerError(f"case {case_id}: its script has no docstring")
    registry[case_id] = Case(case_id, requirement, group, setup, script, about, look_at, bench)
