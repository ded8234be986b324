# SPDX-License-Identifier: BSD-2-Clause
"""A source of the package as hatch_declarations.py reads it, and what an annotation in it names.

A record of Python's says what its fields are, a compiled class what its attributes are, and a function what it gives
back. So where `__init__` takes one over nothing is said again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hatch_constants import Trees, with_constants

# The second line of a source: what compiled code has of it (mrc/core.py).
COMPILED, C_BESIDE, INLINED = "# compiled (", "# compiled: C beside it (", "# compiled into its callers ("
SCALARS = {"int": "long long", "bool": "bint", "float": "double", "unsigned": "unsigned long long"}
POINTER = "long long *"
_ITEMS = {"u8s": "unsigned char", "i32s": "int", "u32s": "unsigned int", "i64s": "long long"}
_ITEMS |= {"u64s": "unsigned long long"}
VIEWS = {name: f"{item}[::1]" for name, item in _ITEMS.items()}
VIEWS |= {f"const_{name}": f"const {view}" for name, view in VIEWS.items()}
ANY_BYTES = "bytes | bytearray | memoryview"
OBJECTS = ("dict", "list", "set", "tuple")
KINDS = ("python", "with_gil", "may_raise")
# Who sees an attribute, and names that say the same in all modules.
SEEN = ("readonly", "public")
PLAIN = {*SCALARS, *VIEWS, *OBJECTS, "pointer", "any_int", "bytes", "str", "memoryview"}


class Unknown(Exception):
    """A source says something that has no C. The text begins with where."""


@dataclass
class Module:
    """A source that is compiled, or whose functions compiled code has in another form; `kind` is its second line."""

    name: str
    path: Path
    kind: str
    compiled: frozenset[str] = frozenset()
    """The names of all modules that are compiled."""

    trees: Trees | None = None
    """Of the modules of its package, as they lie there."""

    @cached_property
    def text(self) -> str:
        """As it is compiled: with the constants that are C's."""
        text = self.path.read_text()
        return with_constants(text, self.trees) if self.kind == COMPILED and self.trees is not None else text

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def as_it_lies(self) -> ast.Module:
        return ast.parse(self.path.read_text(), str(self.path))

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Those that are compiled. A class with a decorator stays Python's, and one whose base is: a record, an
        enumeration, an exception."""
        found: dict[str, ast.ClassDef] = {}
        theirs = {name for name, (module, _) in self.imports.items() if module in self.compiled} | {"Subclassed"}
        for each in self.tree.body if self.kind == COMPILED else []:
            if isinstance(each, ast.ClassDef) and not each.decorator_list:
                bases = {ast.unparse(base) for base in each.bases}
                found |= {each.name: each} if bases <= theirs | set(found) else {}
        return found

    @cached_property
    def all_classes(self) -> dict[str, ast.ClassDef]:
        """Compiled or Python's."""
        return {each.name: each for each in self.tree.body if isinstance(each, ast.ClassDef)}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Names that come from elsewhere: of which module, and what they are there."""
        return {
            alias.asname or alias.name: (each.module, alias.name)
            for each in ast.walk(self.tree)
            if isinstance(each, ast.ImportFrom) and each.module is not None
            for alias in each.names
        }

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Functions of the module that are C."""
        found = [each for each in self.tree.body if isinstance(each, ast.FunctionDef)]
        return {each.name: each for each in found if kind_of(each) != "python"}

    def wrong(self, at: ast.AST, why: str) -> Unknown:
        return Unknown(f"{self.path}:{getattr(at, 'lineno', 0)}: {why}")


def kind_of(function: ast.FunctionDef) -> str:
    """How it is called: one of KINDS, or "" for a C function that needs no interpreter."""
    if function.decorator_list or re.fullmatch(r"__\w+__", function.name):
        return "python"
    found = marker(function.returns)
    return found if found in KINDS else ""


def marker(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        return annotation.value.id
    return ""


def inside(annotation: ast.expr | None, *markers: str) -> ast.expr | None:
    return annotation.slice if isinstance(annotation, ast.Subscript) and marker(annotation) in markers else annotation


class Of(ast.Name):
    """A class of some module; `id` is its name there."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__(name)
        self.module = module


OBJECT = ast.Name("object")


class Sources:
    """The modules of a package, which lies in `root`. `marked` are those that compiled code has, and their second
    lines."""

    def __init__(self, root: Path, marked: Iterable[tuple[Path, str]]) -> None:
        named = [(".".join(path.relative_to(root).with_suffix("").parts), path, kind) for path, kind in marked]
        compiled = frozenset(name for name, _, kind in named if kind == COMPILED)
        made = [Module(*each, compiled, self._as_it_lies) for each in named]
        self.modules = {each.name: each for each in made}
        self._root = root
        self._others: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """One of the package, compiled or not; None where it is another's."""
        if name in self.modules:
            return self.modules[name]
        if name not in self._others:
            path = self._root.joinpath(*name.split("."))
            paths = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
            self._others[name] = Module(name, paths[0], "") if paths else None
        return self._others[name]

    def _as_it_lies(self, name: str) -> ast.Module | None:
        found = self.module(name)
        return None if found is None else found.as_it_lies

    def said_by(self) -> list[str]:
        """The sources of Python's that were asked so far, as seen from the root."""
        return sorted(str(each.path.relative_to(self._root)) for each in self._others.values() if each is not None)

    def resolved(self, module: Module | None, annotation: ast.expr | None) -> ast.expr:
        """The same without names of this module alone: a number, a view or a pointer by its name, a class as `Of`, one
        or none, or an object of Python."""
        if isinstance(annotation, Of) or module is None:
            return annotation or OBJECT
        if isinstance(annotation, ast.Name):
            if annotation.id in PLAIN:
                return annotation
            if annotation.id in module.all_classes:
                return Of(annotation.id, module.name)
            of, there = module.imports.get(annotation.id, ("", ""))
            return self.resolved(self.module(of), ast.Name(there)) if self.module(of) else OBJECT
        if marker(annotation) in SEEN:
            return self.resolved(module, inside(annotation, *SEEN))
        if marker(annotation) in OBJECTS:
            return ast.Name(marker(annotation))
        if isinstance(annotation, ast.BinOp) and ast.unparse(annotation.right) == "None":
            found = self.resolved(module, annotation.left)
            return ast.BinOp(found, ast.BitOr(), annotation.right) if isinstance(found, Of) else OBJECT
        return OBJECT

    def field(self, of: ast.expr | None, name: str) -> ast.expr | None:
        """What a field, an attribute or a property of a class is; None where nothing says so."""
        module = self.module(of.module) if isinstance(of, Of) else None
        if module is None or not isinstance(of, Of):
            return None
        declared = module.all_classes[of.id]
        for each in declared.body:
            if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name:
                return self.resolved(module, each.annotation)
            if isinstance(each, ast.FunctionDef) and each.name == name:
                is_property = [ast.unparse(how) for how in each.decorator_list] in (["property"], ["cached_property"])
                return self.resolved(module, each.returns) if is_property else None
        if of.id in module.classes and isinstance(found := self.attributes(module, declared).get(name), ast.expr):
            return self.resolved(module, found)
        bases = [self.field(self.resolved(module, base), name) for base in declared.bases]
        return next((each for each in bases if each is not None), None)

    def given_back(self, module: Module, function: ast.expr) -> ast.expr | None:
        """What a function of the package gives back, of this module, of another, or of C; None for any other."""
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            of, there = module.imports.get(function.value.id, ("", ""))
            found, name = self.modules.get(f"{of}.{there}"), function.attr
        elif isinstance(function, ast.Name):
            of, name = module.imports.get(function.id, (module.name, function.id))
            found = self.module(of)
        else:
            return None
        for each in found.tree.body if found is not None else []:
            if isinstance(each, ast.FunctionDef) and each.name == name and not each.decorator_list:
                return self.resolved(found, inside(each.returns, *KINDS))
        return None

    def attributes(self, module: Module, declared: ast.ClassDef) -> dict[str, ast.expr | ast.stmt]:
        """Those of a compiled class (hatch_declarations.py)."""
        raise NotImplementedError
