# SPDX-License-Identifier: BSD-2-Clause
"""Which attributes a compiled class has, and what each is, as its source says (docs/contributing/compiled.md).

`__init__` sets them, as in any class of Python. An annotation there says what one is that its value does not tell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

CONSTANT = re.compile(r"_[A-Z0-9][A-Z0-9_]*")
# What of two integers is one.
_OF_INTEGERS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr)


def constants(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names of the module that are C's, in capitals with an underscore before: integers, unless an annotation says what
    else."""
    for each in module.body:
        annotation = each.annotation if isinstance(each, ast.AnnAssign) else ast.Name("int")
        targets = each.targets if isinstance(each, ast.Assign) else []
        if isinstance(each, ast.AnnAssign) and each.value is not None:
            targets = [each.target]
        for name in [name for target in targets for name in _names(target)]:
            if CONSTANT.fullmatch(name):
                yield name, annotation


def attributes(of: ast.ClassDef, module: ast.Module, classes: set[str]) -> dict[str, ast.expr | ast.stmt]:
    """Name to annotation, in the order in which they stand; where nothing says what one is, the statement that sets it.

    `classes` are the names of compiled classes here: calling one makes it. An attribute that `__init__` does not set is
    annotated in the body of the class.
    """
    said = _Values(module, classes, of)
    found: dict[str, ast.expr | ast.stmt] = {
        each.target.id: each.annotation
        for each in of.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    guessed = set[str]()
    for statement in _statements(said.first):
        for name, annotation, value in _set(statement):
            if annotation is not None and (name not in found or name in guessed):
                found[name] = annotation
                guessed.discard(name)
            elif annotation is None and name not in found:
                found[name] = said.type(value) or statement
                guessed.add(name)
    return found


def _statements(function: ast.FunctionDef | None) -> Iterator[ast.stmt]:
    """Those of a function, in its order."""
    left: list[ast.stmt] = list(function.body) if function else []
    while left:
        each = left.pop(0)
        yield each
        left[:0] = [inner for inner in ast.iter_child_nodes(each) if isinstance(inner, ast.stmt)]


def _set(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """The attributes of self that a statement sets: each with its annotation and its value, where it has one alone."""
    if isinstance(statement, ast.AnnAssign) and (name := _of_self(statement.target)):
        yield name, statement.annotation, statement.value
    for target in statement.targets if isinstance(statement, ast.Assign) else []:
        if name := _of_self(target):
            yield name, None, statement.value if isinstance(statement, ast.Assign) else None
        elif isinstance(target, ast.Tuple):
            assert isinstance(statement, ast.Assign)
            values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [None] * len(target.elts)
            for item, value in zip(target.elts, values, strict=True):
                if name := _of_self(item):
                    yield name, None, value


def _of_self(target: ast.expr) -> str:
    mine = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if mine and isinstance(target, ast.Attribute) else ""


class _Values:
    """What a value is, where it says so itself, as a type checker sees it."""

    def __init__(self, module: ast.Module, classes: set[str], of: ast.ClassDef) -> None:
        functions = [each for each in of.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        self.first = functions[0] if functions else None
        self._classes = classes
        self._known = dict(constants(module))
        given = [*self.first.args.args, *self.first.args.kwonlyargs] if self.first else []
        self._known |= {each.arg: each.annotation for each in given if each.annotation is not None}

    def type(self, value: ast.expr | None) -> ast.expr | None:
        if isinstance(value, ast.Constant) and type(value.value) in (bool, int, float):
            return ast.Name(type(value.value).__name__)
        if isinstance(value, ast.Name):
            return self._known.get(value.id)
        if isinstance(value, ast.UnaryOp):
            return ast.Name("bool") if isinstance(value.op, ast.Not) else self._integer(value.operand)
        if isinstance(value, ast.BinOp) and isinstance(value.op, _OF_INTEGERS):
            return self._integer(value.left, value.right)
        if isinstance(value, ast.Compare):
            return ast.Name("bool")
        made = value.func if isinstance(value, ast.Call) else None
        return made if isinstance(made, ast.Name) and made.id in self._classes else None

    def _integer(self, *of: ast.expr) -> ast.expr | None:
        kinds = [self.type(each) for each in of]
        return kinds[0] if all(isinstance(each, ast.Name) and each.id == "int" for each in kinds) else None


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Tuple):
        return [name for each in target.elts for name in _names(each)]
    return [target.id] if isinstance(target, ast.Name) else []
