"""Endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

`mrc conformance run --target mrc.conformance.mutants:sack_echoes_another_ev` runs against one; every module in this
folder is found by itself. A name that is none of a mutant raises AttributeError.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from mrc.conformance.interpreted import check_interpreted
from mrc.conformance.mutants.mutant import REGISTRY, Mutant
from mrc.conformance.target import Target


def mutants() -> dict[str, Mutant]:
    """All of them by name, in order of the modules and of the places in them. Raises CallerError where the datapath is
    compiled: a mutant is a subclass of its parts."""
    check_interpreted()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(REGISTRY)


def __getattr__(name: str) -> Callable[[], Target]:
    found = None if name.startswith("_") else mutants().get(name)
    if found is None:
        raise AttributeError(f"no mutant {name}")
    return found.target
