# SPDX-License-Identifier: BSD-2-Clause
"""RC endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

`mrc conformance run --transport rc --target mutant:gaps_are_silent` runs against one; every module in this folder is
found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil

from mutants.mutant import check_interpreted
from mutants.rc.mutant import REGISTRY, RcMutant


def rc_mutants() -> dict[str, RcMutant]:
    """All of them by name, in order of the modules and of the places in them. Raises CallerError where the datapath is
    compiled: a mutant is a subclass of its parts."""
    check_interpreted()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(REGISTRY)
