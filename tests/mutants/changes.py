# SPDX-License-Identifier: BSD-2-Clause
"""What a mutant changes while it is in place: the code of functions.

The code of a function is made of its source, in which one text is replaced by another, for the same file and lines. It
stays the same function: whoever holds it, bound or imported by name, runs the changed code.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from mrc.wire import fields, names, opcodes, rows

_ABSENT = object()
_ANNOTATIONS = __future__.annotations.compiler_flag
# What a text may name beside what the module of its function knows.
_KNOWN_TO_ALL: dict[str, Any] = {
    **{name: value for module in (fields, names, opcodes, rows) for name, value in vars(module).items()},
    "np": np,
}


class StaleMutant(Exception):
    """What a mutant would change is not there, or not once: the code is another than when it was written."""


@dataclass(frozen=True, slots=True)
class Change:
    """This attribute of `owner`, a function or a module, has another value; `module` is the name of the module."""

    owner: Any
    module: str
    attribute: str
    value: object

    def put(self) -> Change:
        """Make it so. Returns the change back."""
        before = getattr(self.owner, self.attribute, _ABSENT)
        if self.value is _ABSENT:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.value)
        return Change(self.owner, self.module, self.attribute, before)


@dataclass(frozen=True, slots=True)
class Edit:
    """In the function at `place` the text `was` becomes `now`. Where `was` is empty `now` goes before all it does."""

    place: str
    was: str
    now: str


def changes_of(mutant: str, edits: Sequence[Edit], packages: tuple[str, ...]) -> list[Change]:
    """The changed code of each function that this mutant edits. Raises StaleMutant, which names it."""
    texts: dict[FunctionType, str] = {}
    try:
        for edit in edits:
            function = _function_at(edit.place, packages)
            texts[function] = _edited(texts.get(function) or _source_of(function), edit)
        return [change for function, text in texts.items() for change in _changes_of(function, text)]
    except StaleMutant as error:
        raise StaleMutant(f"mutant {mutant}: {error}") from error.__cause__


def _function_at(place: str, packages: tuple[str, ...]) -> FunctionType:
    """The function `Class.method`, or `module.function` with the last part of the module's name: of the first of
    `packages` that has such a class or module. Raises StaleMutant."""
    owner, _, name = place.partition(".")
    found = next((each[owner] for each in map(_owners, packages) if owner in each), None)
    member: Any = vars(found).get(name) if found is not None else None
    # A property, a class's own method, one that remembers what it returned.
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    if not isinstance(function, FunctionType):
        raise StaleMutant(f"there is no function {place}")
    return function


@cache
def _owners(package: str) -> dict[str, type | ModuleType]:
    """The classes and modules of a package, or of a module, by name. Where several share one there is none."""
    root = importlib.import_module(package)
    inside = pkgutil.walk_packages(getattr(root, "__path__", []), f"{package}.")
    modules = [root, *(importlib.import_module(each.name) for each in inside if not each.ispkg)]
    owners: dict[str, list[type | ModuleType]] = {}
    for module in modules:
        owners.setdefault(module.__name__.rpartition(".")[2], []).append(module)
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == module.__name__:
                owners.setdefault(each.__name__, []).append(each)
    return {name: found[0] for name, found in owners.items() if len(set(found)) == 1}


@cache
def _source_of(function: FunctionType) -> str:
    return textwrap.dedent(inspect.getsource(function))


def _edited(text: str, edit: Edit) -> str:
    if not edit.was:
        return _begun_with(text, edit.now)
    first, *others = edit.was.split("\n")
    found = []
    for match in re.finditer(re.escape(first), text):
        line = text[text.rfind("\n", 0, match.start()) + 1 :]
        indent = "\n" + line[: len(line) - len(line.lstrip())]
        was = indent.join([first, *others])
        if text.startswith(was, match.start()):
            found.append((match.start(), was, indent))
    if len(found) != 1:
        raise StaleMutant(f"{edit.place} has this {len(found)} times and not once: {edit.was}")
    ((at, was, indent),) = found
    return text[:at] + indent.join(edit.now.split("\n")) + text[at + len(was) :]


def _begun_with(text: str, statements: str) -> str:
    """The source of a function that does this first, behind its docstring."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    told = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    first = function.body[1 if told else 0]
    lines = text.split("\n")
    lines.insert(first.lineno - 1, textwrap.indent(statements, " " * first.col_offset))
    return "\n".join(lines)


def _changes_of(function: FunctionType, text: str) -> Iterator[Change]:
    """The code that this text makes of a function, and what it names that its module does not know."""
    before, module = function.__code__, function.__module__
    # Inside another function, so that what is free in it is free again: `__class__`, where it calls `super()`.
    whole = f"def _({', '.join(before.co_freevars)}):\n{textwrap.indent(text, ' ')}"
    try:
        tree = ast.increment_lineno(ast.parse(whole), before.co_firstlineno - 2)
        outer = compile(tree, before.co_filename, "exec", _ANNOTATIONS, dont_inherit=True)
    except SyntaxError as error:
        raise StaleMutant(f"{function.__qualname__} is no Python any more: {error}\n{text}") from error
    code = _code_in(_code_in(outer, "_"), before.co_name).replace(co_qualname=before.co_qualname)
    named = _names_in(code)
    if code.co_freevars != before.co_freevars or ("super" in named and not code.co_freevars):
        raise StaleMutant(f"{function.__qualname__} calls super() where it did not, or no longer where it did")
    for name in sorted(named - function.__globals__.keys() - vars(builtins).keys()):
        if name not in _KNOWN_TO_ALL:
            raise StaleMutant(f"{function.__qualname__} names {name}, which nobody knows")
        yield Change(importlib.import_module(module), module, name, _KNOWN_TO_ALL[name])
    yield Change(function, module, "__code__", code)


def _code_in(outer: CodeType, name: str) -> CodeType:
    return next(each for each in outer.co_consts if isinstance(each, CodeType) and each.co_name == name)


def _names_in(code: CodeType) -> set[str]:
    """The global names of a function, and of what is defined in it."""
    inner = (_names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    named = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return named.union(*inner)
