# SPDX-License-Identifier: BSD-2-Clause
"""Which attributes a compiled class has, and what each is, as its source says (docs/contributing/compiled.md).

`__init__` sets them, as in any class of Python, itself or by a method that it calls. An annotation there says what one
is that its value does not tell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hatch_constants import OF_INTEGERS
from hatch_sources import SEEN, VIEWS, Module, Sources, inside

CONSTANT = re.compile(r"_[A-Z0-9][A-Z0-9_]*")


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


def attributes(of: ast.ClassDef, module: Module, classes: set[str], sources: Sources) -> dict[str, ast.expr | ast.stmt]:
    """Name to annotation, in the order in which they stand; where nothing says what one is, the statement that sets it.

    `classes` are the names of compiled classes here: calling one makes it. What neither `__init__` sets nor a method of
    the class that it calls is annotated in the body of the class.
    """
    found: dict[str, ast.expr | ast.stmt] = {
        each.target.id: each.annotation
        for each in of.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    guessed = set[str]()
    for said, statement in _steps(of, _Scope(module, classes, sources, found)):
        for name, annotation, value in _set(statement):
            if annotation is not None and (name not in found or name in guessed):
                found[name] = annotation
                guessed.discard(name)
            elif annotation is None and name not in found:
                found[name] = said.type(value) or statement
                guessed.add(name)
        said.learn(statement)
    return found


def said_twice(of: ast.ClassDef) -> Iterator[tuple[ast.stmt, str]]:
    """What the body of a class says although `__init__` says it, or the compiler: the first such statement."""
    first = next((each for each in of.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    alone = {
        name
        for each in _statements(first)
        if isinstance(each, ast.AnnAssign) or (isinstance(each, ast.Assign) and len(each.targets) == 1)
        for name in [_of_self(each.target if isinstance(each, ast.AnnAssign) else each.targets[0])]
    }
    for each in of.body:
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) in alone:
            yield each, f"__init__ sets {ast.unparse(each.target)}, and says what it is"
        elif isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
            yield each, "a compiled class has the attributes that it sets, and no other"


def _steps(of: ast.ClassDef, scope: _Scope) -> Iterator[tuple[_Values, ast.stmt]]:
    """The statements of `__init__`, then those of the methods that it calls, each with what is known there."""
    methods = {each.name: each for each in of.body if isinstance(each, ast.FunctionDef)}
    waiting = ["__init__"]
    for name in waiting:
        if name in methods:
            said = _Values(scope, methods[name])
            for statement in _statements(methods[name]):
                yield said, statement
                called = [each.func for each in ast.walk(statement) if isinstance(each, ast.Call)]
                waiting += {_of_self(each) for each in called} - {"", *waiting}


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


@dataclass
class _Scope:
    """Where a class stands, and what is known of its attributes so far."""

    module: Module
    classes: set[str]
    sources: Sources
    found: dict[str, ast.expr | ast.stmt]


class _Values:
    """What a value is in a function, where it says so itself, as a type checker sees it."""

    def __init__(self, scope: _Scope, function: ast.FunctionDef) -> None:
        self._scope = scope
        self._known: dict[str, ast.expr | None] = dict(constants(scope.module.tree))
        given = [*function.args.args, *function.args.kwonlyargs]
        self._known |= {each.arg: each.annotation for each in given if each.annotation is not None}

    def learn(self, statement: ast.stmt) -> None:
        """What a local is after this."""
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            self._known.setdefault(statement.target.id, statement.annotation)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for each, of in pairs:
                if isinstance(each, ast.Name):
                    self._known.setdefault(each.id, self.type(of))

    def type(self, value: ast.expr | None) -> ast.expr | None:
        found = self._type(value)
        # Which view of memory it is nothing says.
        return None if isinstance(found, ast.Name) and found.id == "memoryview" else found

    def _type(self, value: ast.expr | None) -> ast.expr | None:
        if isinstance(value, ast.Constant) and type(value.value) in (bool, int, float):
            return ast.Name(type(value.value).__name__)
        if isinstance(value, ast.Name):
            return self._known.get(value.id)
        if isinstance(value, ast.UnaryOp):
            return ast.Name("bool") if isinstance(value.op, ast.Not) else self._integer(value.operand)
        if isinstance(value, ast.BinOp) and isinstance(value.op, OF_INTEGERS):
            return self._integer(value.left, value.right)
        if isinstance(value, ast.Compare):
            return ast.Name("bool")
        if isinstance(value, ast.Attribute):
            return self._attribute(value)
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            whole = self.type(value.value)
            return whole if isinstance(whole, ast.Name) and whole.id in VIEWS else None
        if isinstance(value, ast.IfExp):
            one, other = self.type(value.body), self.type(value.orelse)
            return one if one and other and ast.unparse(one) == ast.unparse(other) else None
        return self._called(value) if isinstance(value, ast.Call) else None

    def _attribute(self, value: ast.Attribute) -> ast.expr | None:
        if name := _of_self(value):
            found = self._scope.found.get(name)
            return inside(found, *SEEN) if isinstance(found, ast.expr) else None
        owner = self.type(value.value)
        sources, module = self._scope.sources, self._scope.module
        return sources.field(sources.resolved(module, owner), value.attr) if owner else None

    def _called(self, value: ast.Call) -> ast.expr | None:
        if isinstance(value.func, ast.Name):
            if value.func.id in self._scope.classes:
                return value.func
            if value.func.id in ("max", "min"):
                return self._integer(*value.args)
        return self._scope.sources.given_back(self._scope.module, value.func)

    def _integer(self, *of: ast.expr) -> ast.expr | None:
        kinds = [self.type(each) for each in of]
        return kinds[0] if all(isinstance(each, ast.Name) and each.id == "int" for each in kinds) else None


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Tuple):
        return [name for each in target.elts for name in _names(each)]
    return [target.id] if isinstance(target, ast.Name) else []
