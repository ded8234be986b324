# SPDX-License-Identifier: BSD-2-Clause
"""The constants of a compiled module that are C's (docs/contributing/compiled.md).

The source names `WIDTH`, its own or another module's. What is compiled has `_WIDTH_` in the functions instead, an
integer of C, and `; _WIDTH_ = WIDTH` behind the statement that says what WIDTH is: each line stays where it was.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

# Python's, seen by everybody, and what becomes of one where it is C's.
_PUBLIC = re.compile(r"[A-Z][A-Z0-9_]*")
_CS = "_{}_"
# What of two integers is one.
OF_INTEGERS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr)
OF_INTEGERS += (ast.BitXor,)
_FUNCTIONS_OF_INTEGERS = ("int", "len")
_ONES_OF_INTEGERS = ("max", "min", "sum")

Place = tuple[int, int]
# The parsed source of a module of the package, None for any other.
Trees = Callable[[str], "ast.Module | None"]


def with_constants(text: str, trees: Trees) -> str:
    """The source of a compiled module, with those constants of C that its functions name."""
    tree = ast.parse(text)
    said = _said(tree)
    uses = [each for each in _uses(tree) if each.id in said]
    integers = {name for name in {each.id for each in uses} if _is_integer(tree, name, trees)}
    lines = [line.encode() for line in text.splitlines()]
    behind: dict[Place, list[str]] = {}
    for name in sorted(integers):
        behind.setdefault(end(said[name]), []).append(name)
    # A function in a function names them once, too.
    changes = list({(start(each), end(each), _CS.format(each.id)) for each in uses if each.id in integers})
    changes += [
        (place, place, "".join(f"; {_CS.format(name)} = {name}" for name in names)) for place, names in behind.items()
    ]
    for (line, first), (_, last), new in sorted(changes, reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:first] + new.encode() + old[last:]
    return "\n".join(line.decode() for line in lines) + "\n"


def _said(tree: ast.Module) -> dict[str, ast.stmt]:
    """Which statement of the module says what a name in capitals is: the last one."""
    found: dict[str, ast.stmt] = {}
    for each in tree.body:
        if isinstance(each, ast.ImportFrom):
            found |= {name: each for alias in each.names if _PUBLIC.fullmatch(name := alias.asname or alias.name)}
        elif isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            found |= {name: each for name, _ in _pairs(each) if _PUBLIC.fullmatch(name)}
    return found


def _uses(tree: ast.Module) -> Iterator[ast.Name]:
    """Names in capitals in the bodies of functions. What any function sets itself, or takes, stays Python's in all of
    them; so does a name in an f-string, of which Python before 3.12 does not say at which place it is."""
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.Lambda)]
    own = {each.arg for function in functions for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    bodies = [each.body for each in functions if isinstance(each, ast.FunctionDef)]
    names = [each for body in bodies for statement in body for each in _names(statement)]
    own |= {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    yield from (each for each in names if each.id not in own)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name) and _PUBLIC.fullmatch(node.id):
        yield node
    elif not isinstance(node, ast.JoinedStr):
        for each in ast.iter_child_nodes(node):
            yield from _names(each)


def _pairs(statement: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr | None]]:
    """What the statement sets and to what. One of several things that one expression gives is an item of it."""
    if isinstance(statement, ast.AnnAssign):
        targets = [(statement.target, statement.value)]
    else:
        targets = [(target, statement.value) for target in statement.targets]
    while targets:
        target, value = targets.pop()
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) else [_one_of(value)] * len(target.elts)
            targets += zip(target.elts, values, strict=True)


def _one_of(value: ast.expr | None) -> ast.expr | None:
    return None if value is None else ast.Subscript(value, ast.Constant(0), ast.Load())


def _is_integer(tree: ast.Module, name: str, trees: Trees) -> bool:
    """Whether the module says that this name is an integer."""
    for each in reversed(tree.body):
        if isinstance(each, ast.ImportFrom):
            for alias in each.names:
                if name == (alias.asname or alias.name):
                    there = trees(each.module or "")
                    return there is not None and _is_integer(there, alias.name, trees)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id == name:
            annotation, value = ast.unparse(each.annotation), each.value
            said = annotation == "Final" and value is not None and _gives_integer(tree, value, trees)
            return said or annotation in ("int", "Final[int]")
        elif isinstance(each, ast.Assign):
            for target, value in _pairs(each):
                if target == name:
                    return value is not None and _gives_integer(tree, value, trees)
    return False


def _gives_integer(tree: ast.Module, value: ast.expr, trees: Trees) -> bool:
    if isinstance(value, ast.Constant):
        return type(value.value) is int
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub | ast.Invert) and _gives_integer(tree, value.operand, trees)
    if isinstance(value, ast.BinOp):
        both = [_gives_integer(tree, each, trees) for each in (value.left, value.right)]
        return isinstance(value.op, OF_INTEGERS) and all(both)
    if isinstance(value, ast.Name):
        return _is_integer(tree, value.id, trees)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Call):
        several = value.value.func
        return isinstance(several, ast.Name) and (
            several.id == "range" or _function_gives(tree, several.id, trees) == "tuple[int, ...]"
        )
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        function = value.func.id
        if function in _ONES_OF_INTEGERS:
            return bool(value.args) and all(_gives_integer(tree, each, trees) for each in value.args)
        return function in _FUNCTIONS_OF_INTEGERS or _function_gives(tree, function, trees) == "int"
    return False


def _function_gives(tree: ast.Module, name: str, trees: Trees) -> str:
    """What a function of the package says that it gives back; nothing where it is none."""
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name == name:
            return ast.unparse(each.returns) if each.returns is not None else ""
        if isinstance(each, ast.ImportFrom):
            for alias in each.names:
                if name == (alias.asname or alias.name):
                    there = trees(each.module or "")
                    return "" if there is None else _function_gives(there, alias.name, trees)
    return ""


def start(node: ast.stmt | ast.expr) -> Place:
    """Lines are counted from 1, places in a line from 0 and in bytes."""
    return node.lineno, node.col_offset


def end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0
