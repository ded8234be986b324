# SPDX-License-Identifier: BSD-2-Clause
"""Names of a package that are loaded when they are first used: a command pays only for what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package: `modules` are its modules, each with the names that the package offers of
    it. Type checkers need the same names imported in an `if TYPE_CHECKING:` block.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{places[name]}"), name)
        # The next use finds it without asking here.
        setattr(sys.modules[package], name, value)
        return value

    return load
