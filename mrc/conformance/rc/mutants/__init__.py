"""RC endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

`mrc conformance run --transport rc --target mrc.conformance.rc.mutants:gaps_are_silent` runs against one; every
module in this folder is found by itself. A name that is none of a mutant raises AttributeError.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from mrc.conformance.interpreted import check_interpreted
from mrc.conformance.rc.mutants.mutant import REGISTRY, RcMutant
from mrc.conformance.target import Target


def rc_mutants() -> dict[str, RcMutant]:
    """All of them by name, in order of the modules and of the places in them. Raises CallerError where the datapath is
    compiled: a mutant is a subclass of its parts."""
    check_interpreted()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(REGISTRY)


def __getattr__(name: str) -> Callable[[], Target]:
    found = None if name.startswith("_") else rc_mutants().get(name)
    if found is None:
        raise AttributeError(f"no mutant {name}")
    return found.target
