# SPDX-License-Identifier: BSD-2-Clause
"""The mutants of a module. mutmut makes the changes; here they get names and find the tests that may notice them."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.machinery
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One change of a function. `lines` are those of the statement it changes."""

    name: str
    function: str
    text: str
    lines: range
    change: tuple[str, ...]


class Module:
    """A module and its mutants. A mutant's name comes from what it changes: it stays when other code changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = ".".join(path.with_suffix("").parts)
        self.text = path.read_text()
        self.mutants = list(self._mutants())

    def _mutants(self) -> Iterator[Mutant]:
        from mutmut.mutation.file_mutation import create_mutations

        module, mutations, _, _ = create_mutations(str(self.path), self.text)
        places = dict(_functions(module, self.text))
        tree = ast.parse(self.text)
        seen: Counter[str] = Counter()
        for mutation in mutations:
            node = mutation.contained_by_top_level_function
            if node not in places:
                continue
            function, start, end = places[node]
            old = self.text[start:end]
            new = _text_of(node.deep_replace(mutation.original_node, mutation.mutated_node), module, "." in function)
            try:
                if _parsed(new) == _parsed(old):
                    continue
            except SyntaxError:
                continue
            difference = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
            change = tuple(line for line in difference if not line.startswith(("---", "+++", "@@")))
            text = self.text[:start] + new + self.text[end:]
            line = self.text.count("\n", 0, start) + _first_difference(old, new)
            digest = hashlib.sha256("\n".join((function, *change)).encode()).hexdigest()[:10]
            seen[digest] += 1
            name = f"{self.name}.{function}.{digest}.{seen[digest]}"
            yield Mutant(name, function, text, _around(tree, line), change)

    def put_in_place(self, mutant: Mutant) -> None:
        """Let this mutant be the function from now on, in this process: also in a fresh import of the module."""
        path = str(self.path.resolve())
        code = compile(mutant.text, path, "exec")
        _import_from(path, code)
        module = sys.modules.get(self.name)
        if module is None:
            return
        owner: Any = module
        *classes, name = mutant.function.split(".")
        for each in classes:
            owner = getattr(owner, each)
        found = owner.__dict__[name]
        function: FunctionType = getattr(found, "__func__", found)
        changed = _code_of(code, mutant.function)
        function.__code__ = changed
        for node in ast.walk(ast.parse(mutant.text)):
            if isinstance(node, ast.FunctionDef) and node.name == name and _covers(node, changed):
                function.__defaults__ = tuple(_value(each, module) for each in node.args.defaults) or None
                keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                function.__kwdefaults__ = {key.arg: _value(each, module) for key, each in keywords if each} or None


def _functions(module: Any, whole: str) -> Iterator[tuple[Any, tuple[str, int, int]]]:
    """Each function and method: its qualified name, and where in the text it begins and ends."""
    from libcst import ClassDef, FunctionDef

    at = 0
    for node in module.body:
        prefix = f"{node.name.value}." if isinstance(node, ClassDef) else ""
        for each in node.body.body if isinstance(node, ClassDef) else (node,):
            if isinstance(each, FunctionDef):
                text = _text_of(each, module, bool(prefix))
                at = whole.index(text, at)
                yield each, (prefix + each.name.value, at, at + len(text))
                at += len(text)


def _text_of(function: Any, module: Any, indented: bool) -> str:
    from libcst._nodes.internal import CodegenState

    state = CodegenState(module.default_indent, module.default_newline)
    if indented:
        state.increase_indent(module.default_indent)
    function._codegen(state)
    return "".join(state.tokens)


def _parsed(function: str) -> str:
    """What a function says, whatever its layout."""
    return ast.dump(ast.parse(f"if True:\n{function}" if function.lstrip("\n").startswith(" ") else function))


def _first_difference(old: str, new: str) -> int:
    """The first line that is another one, from 1 on."""
    before, after = old.splitlines(), new.splitlines()
    same = [one == other for one, other in zip(before, after, strict=False)]
    return same.index(False) + 1 if False in same else len(same)


def _around(tree: ast.AST, line: int) -> range:
    """The lines of the statement at this line; of one with a body its head, of a function the whole of it."""
    best, least = range(line, line + 1), 1 << 30
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        end = node.end_lineno or 0
        if end - node.lineno < least:
            least = end - node.lineno
            body = getattr(node, "body", None)
            whole = isinstance(node, ast.FunctionDef) or not body
            best = range(node.lineno, end + 1 if whole or body is None else max(body[0].lineno, node.lineno + 1))
    return best


def _code_of(code: CodeType, name: str) -> CodeType:
    """The code of the function or method of this qualified name."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_qualname == name:
                return each
            if name.startswith(f"{each.co_qualname}."):
                return _code_of(each, name)
    raise LookupError(name)


def _covers(node: ast.FunctionDef, code: CodeType) -> bool:
    return code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))


def _value(node: ast.expr, module: Any) -> object:
    return eval(compile(ast.Expression(node), module.__file__, "eval"), module.__dict__)


def _import_from(path: str, code: CodeType) -> None:
    """Let an import of this file run `code`: what a module works out on import tests look at in a fresh copy."""
    whole = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        return code if str(Path(self.path).resolve()) == path else whole(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
