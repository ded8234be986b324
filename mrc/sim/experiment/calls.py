# SPDX-License-Identifier: BSD-2-Clause
"""Functions and classes that an experiment names: `FILE.py:NAME` beside it, or `MODULE:NAME`."""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from mrc.errors import CallerError


def is_file(name: str) -> bool:
    """Whether the first half of `FILE.py:NAME` names a file."""
    return name.partition(":")[0].endswith(".py")


def load(name: str, files: Mapping[str, str]) -> Any:
    """Load what is named; `files` has the text of each file by the name the experiment gives it. Raises CallerError."""
    place, _, attribute = name.partition(":")
    if is_file(name):
        module = _of_text(place, files[place])
    else:
        try:
            module = importlib.import_module(place)
        except Exception as error:
            # Anything: it is another's code.
            raise CallerError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CallerError(f"{place} has no {attribute}")
    if not callable(found):
        raise CallerError(f"{name} cannot be called")
    return found


@functools.cache
def _of_text(name: str, text: str) -> ModuleType:
    """One module for each text: classes named twice are the same class."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    module = ModuleType(f"experiment_{name.removesuffix('.py').replace('/', '_')}_{digest}")
    # Dataclasses look their module up by its name.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        # Anything: it is another's code.
        del sys.modules[module.__name__]
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, name)
        raise CallerError(f"{name}:{line}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, name: str) -> int:
    """The last line of the file that the error came through."""
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def call(function: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """Call a function of the user's. Its errors become a CallerError that names file and line."""
    try:
        return function(*arguments, **named)
    except CallerError:
        raise
    except Exception as error:
        place = name.partition(":")[0]
        where = f"{place}:{_line(error, place)}" if is_file(name) else name
        raise CallerError(f"{where}: {type(error).__name__}: {error}") from error
