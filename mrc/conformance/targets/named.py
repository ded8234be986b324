# SPDX-License-Identifier: BSD-2-Clause
"""From what --target says to a target."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from mrc.conformance.target import Target
from mrc.errors import CallerError


def named_target(name: str) -> Target:
    """`self`, or MODULE:FACTORY, a function without arguments that gives a `Target`; modules of the working directory
    are found too. Raises CallerError for anything else, and when the factory raises."""
    if name == "self":
        from mrc.conformance.targets.in_process import target

        return target()
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in module_name.split(".")) or not attribute.isidentifier():
        raise CallerError(f"target {name!r}: give self, or MODULE:FACTORY with an adapter's factory")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise CallerError(f"target {name}: {error}") from None
    try:
        made = factory()
    except Exception as error:
        raise CallerError(f"target {name}: its factory raised {type(error).__name__}: {error}") from error
    if not isinstance(made, Target):
        raise CallerError(
            f"target {name}: its factory gave a {type(made).__name__}, not a mrc.conformance.target.Target"
        )
    if not isinstance(getattr(made, "name", None), str):
        raise CallerError(f"target {name}: its factory gave a target without a name: set `name` to a text")
    return made
