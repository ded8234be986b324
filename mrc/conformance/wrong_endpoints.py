# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that are wrong on purpose, called mutants: where they are found and what a command asks of one.

They are in tests/mutants: they reach into private parts of the endpoint, and change with them. A checkout has them, an
installed package does not.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from mrc import core
from mrc.conformance.interpreted import run_interpreted
from mrc.conformance.target import Target
from mrc.errors import CallerError, SystemRefused

PREFIX: Final = "mutant:"
_FOLDER: Final = Path("tests", "mutants")
_PACKAGE: Final = "mutants"


@dataclass(frozen=True, slots=True)
class Mutants:
    """Those of one transport: the folder below tests/mutants, "" for itself, whose `function` gives all by name, and
    where a person `finds` their names."""

    transport: str
    folder: str
    function: str
    finds: str


MRC_MUTANTS: Final = Mutants("MRC", "", "mutants", "docs/conformance.md lists them")


class WrongEndpoint(Protocol):
    """`what` is wrong with it in a sentence; `caught_by` the requirements whose cases have to fail it."""

    @property
    def name(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def caught_by(self) -> tuple[str, ...]: ...
    def target(self) -> Target:
        """The endpoint in virtual time."""


class ServedEndpoint(WrongEndpoint, Protocol):
    """One of MRC, which a live target can run as well."""

    def take_over(self) -> None:
        """Make every endpoint of this process wrong. Raises CallerError for one that exists in virtual time only."""


def named_mutant(target: str) -> str | None:
    """The mutant that --target names, None for any other target."""
    return target.removeprefix(PREFIX) if target.startswith(PREFIX) else None


def find_mutants() -> Path:
    """The folder of the mutants. Raises SystemRefused where this package is installed without them."""
    folder = core.PACKAGE.parent / _FOLDER
    if not core.in_checkout() or not (folder / "__init__.py").exists():
        raise SystemRefused(
            f"mutants come with a checkout of the sources ({_FOLDER}), and {core.PACKAGE} is an installed package: in "
            f"the folder of a checkout run `{sys.executable} -m mrc conformance ...`"
        )
    return folder


def run_with_mutants() -> None:
    """See that this process, an `mrc` command, can have mutants: it starts again where its datapath is compiled.

    Raises SystemRefused where this package is installed without them.
    """
    find_mutants()
    run_interpreted()


def wrong_endpoints(of: Mutants) -> dict[str, WrongEndpoint]:
    """All mutants of a transport by name, in order of the modules and of the places in them.

    Raises SystemRefused where this package is installed without them, CallerError where the datapath is compiled.
    """
    return dict(_registry(of))


def wrong_endpoint(name: str, of: Mutants) -> WrongEndpoint:
    """The mutant of that name. Raises what `wrong_endpoints` raises, and CallerError for an unknown name."""
    found: WrongEndpoint = _registered(name, of)
    return found


def served_endpoint(name: str) -> ServedEndpoint:
    """The mutant of MRC of that name. Raises what `wrong_endpoint` raises."""
    found: ServedEndpoint = _registered(name, MRC_MUTANTS)
    return found


def _registered(name: str, of: Mutants) -> Any:
    found = _registry(of).get(name)
    if found is None:
        raise CallerError(f"no mutant {name} of {of.transport}: {of.finds}")
    return found


def _registry(of: Mutants) -> dict[str, Any]:
    folder = find_mutants()
    if _PACKAGE not in sys.modules:
        _import_package(folder)
    module = f"{_PACKAGE}.{of.folder}" if of.folder else _PACKAGE
    found: dict[str, Any] = getattr(importlib.import_module(module), of.function)()
    return found


def _import_package(folder: Path) -> None:
    """Import the package from that folder, whatever else of its name Python would find."""
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise SystemRefused(f"{folder} cannot be imported: restore it from the repository")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)
