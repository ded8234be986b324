# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

`mrc conformance run --target mutant:sack_echoes_another_ev` runs against one; every module in this folder is found by
itself.
"""

from __future__ import annotations

import importlib
import pkgutil

from mutants.mutant import REGISTRY, Mutant, check_interpreted


def mutants() -> dict[str, Mutant]:
    """All of them by name, in order of the modules and of the places in them. Raises CallerError where the datapath is
    compiled: a mutant is a subclass of its parts."""
    check_interpreted()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        if not module.ispkg:
            importlib.import_module(f"{__name__}.{module.name}")
    return dict(REGISTRY)
