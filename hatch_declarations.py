# SPDX-License-Identifier: BSD-2-Clause
"""What Cython is told of the compiled modules, read in their sources (docs/contributing/compiled.md).

A module says in its second line that it is compiled. Here its annotations become a `.pxd`: the C types of its
constants, attributes, arguments and locals. hatch_staged.py puts it beside the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from hatch_attributes import attributes, constants, said_twice
from hatch_sources import (
    ANY_BYTES,
    C_BESIDE,
    COMPILED,
    INLINED,
    KINDS,
    OBJECTS,
    POINTER,
    SCALARS,
    SEEN,
    VIEWS,
    Module,
    Of,
    Sources,
    inside,
    kind_of,
    marker,
)

# A list of a compiled class. What C does with an item it does to the object there, and counts no reference.
ITEMS, ITEM = "objects", "mrc_item"
_ITEM = f"""cdef extern from *:
    \"\"\"
    #ifndef MRC_ITEM
    #define MRC_ITEM
    static inline void *{ITEM}(PyObject *items, long long at) {{
    #ifdef MRC_CHECKED
        if (at < 0 || at >= PyList_GET_SIZE(items) || PyList_GET_ITEM(items, at) == Py_None) abort();
    #endif
        return (void *)PyList_GET_ITEM(items, at);
    }}
    #endif
    \"\"\"
    void *{ITEM}(list items, long long at) nogil"""
# The same types as arguments of `cython.locals`.
_LOCAL = {"long long": "cython.longlong", "unsigned long long": "cython.ulonglong", "bint": "cython.bint"}
_LOCAL |= {"double": "cython.double", POINTER: "cython.p_longlong", "unsigned char[::1]": "cython.uchar[::1]"}
_LOCAL |= {"long long[::1]": "cython.longlong[::1]"}


class Declarations(Sources):
    """The `.pxd` of the modules of a package."""

    def __init__(self, root: Path, marked: Iterable[tuple[Path, str]]) -> None:
        """`root` is where the package lies. `marked` are those that compiled code has, and their second lines."""
        super().__init__(root, marked)
        self._attributes_of: dict[tuple[str, str], dict[str, ast.expr | ast.stmt]] = {}
        # By module the names that come from compiled ones, and the classes that none of its imports names: an attribute
        # is of one, as another source says.
        self._theirs: dict[str, dict[str, tuple[str, str]]] = {}
        self._named: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in self.modules}

    def of(self, module: Module) -> str:
        """The whole file."""
        if module.kind == C_BESIDE:
            lines = list(self._c_beside(module))
        elif module.kind == INLINED:
            lines = list(self._inlined(module))
        else:
            lines = list(self._constants(module))
            for declared in module.classes.values():
                lines += self._class(module, declared)
            for function in module.functions.values():
                lines += self._function(module, function, None)
        begin = [f"# Made of {module.path.name} by hatch_declarations.py.", "cimport cython"]
        used = {self.items[_attribute(each)] for each in self.used_items(module)}
        if used:
            begin += [_ITEM, *(f"from {of} cimport {there}" for of, there in sorted(used) if of != module.name)]
        lines = [*begin, *self._cimports(module, "\n".join(lines)), *lines]
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------ lists of objects

    @cached_property
    def items(self) -> dict[str, tuple[str, str]]:
        """The attributes that are such lists, and of which class of which module: their names are theirs alone."""
        found = {}
        for module in self.modules.values():
            for declared in module.classes.values():
                for name, annotation in self.attributes(module, declared).items():
                    if isinstance(annotation, ast.expr) and marker(annotation) == ITEMS:
                        of = ast.unparse(inside(annotation, ITEMS) or annotation)
                        found[name] = self._imported(module).get(of, (module.name, of))
        return found

    def used_items(self, module: Module) -> list[ast.Subscript]:
        """Where a C function uses one in place: an item of which it wants an attribute or calls a method."""
        functions = [*module.functions.values()]
        for declared in module.classes.values():
            functions += [
                each for each in declared.body if isinstance(each, ast.FunctionDef) and kind_of(each) != "python"
            ]
        return [
            each.value
            for function in functions
            for each in ast.walk(function)
            if isinstance(each, ast.Attribute) and _attribute(each.value) in self.items
        ]

    def item(self, used: ast.Subscript) -> str:
        """What Cython reads there."""
        _, of = self.items[_attribute(used)]
        return f"cython.cast({of}, {ITEM}({ast.unparse(used.value)}, {ast.unparse(used.slice)}))"

    # ------------------------------------------------------------------ names of other modules

    def _imported(self, module: Module) -> dict[str, tuple[str, str]]:
        """Names that come from modules that compiled code has: where from, and what is cimported there."""
        if module.name not in self._theirs:
            self._theirs[module.name] = {
                name: (from_, there)
                for name, (from_, there) in module.imports.items()
                if self._is_compiled(from_, there)
            }
        return self._named[module.name] | self._theirs[module.name]

    def _is_compiled(self, module: str, name: str) -> bool:
        of, whole = self.modules.get(module), self.modules.get(f"{module}.{name}")
        named = of is not None and (name in of.classes or _is_called(of, name))
        return named or (whole is not None and whole.kind != COMPILED)

    def _cimports(self, module: Module, declared: str) -> Iterator[str]:
        """Classes that are declared here; functions and modules whichever they are."""
        for name, (of, there) in self._imported(module).items():
            is_class = of in self.modules and there in self.modules[of].classes
            if not is_class or re.search(rf"\b{name}\b", declared):
                yield f"from {of} cimport {there}"

    def _is_class(self, module: Module, name: str) -> bool:
        of, there = self._imported(module).get(name, (module.name, name))
        return of in self.modules and there in self.modules[of].classes

    # ------------------------------------------------------------------ types

    def type(self, module: Module, annotation: ast.expr | None) -> str:
        """The C type that an annotation stands for; "object" where it is Python's."""
        if isinstance(annotation, Of):
            return self._other(module, annotation)
        if isinstance(annotation, ast.Name):
            for known in (SCALARS, VIEWS):
                if annotation.id in known:
                    return known[annotation.id]
            if annotation.id == "pointer":
                return POINTER
            if annotation.id in OBJECTS or self._is_class(module, annotation.id):
                return annotation.id
        if marker(annotation) in (*OBJECTS, ITEMS):
            return "list" if marker(annotation) == ITEMS else marker(annotation)
        if annotation is not None and ast.unparse(annotation) == ANY_BYTES:
            return VIEWS["const_u8s"]
        if isinstance(annotation, ast.BinOp) and ast.unparse(annotation.right) == "None":
            # Where there is none a variable of a class holds None.
            found = self.type(module, annotation.left)
            return found if isinstance(annotation.left, ast.Name) and self._is_class(module, found) else "object"
        return "object"

    def _other(self, module: Module, of: Of) -> str:
        if of.module not in self.modules or of.id not in self.modules[of.module].classes:
            return "object"
        named = self.resolved(module, ast.Name(of.id))
        if not isinstance(named, Of):
            self._named[module.name][of.id] = of.module, of.id
        elif named.module != of.module:
            raise module.wrong(module.tree, f"{of.id} is another class here than in {of.module}")
        return of.id

    # ------------------------------------------------------------------ constants

    def _constants(self, module: Module) -> Iterator[str]:
        """Names in capitals with an underscore before: integers, where an annotation says nothing else."""
        for name, annotation in constants(module.tree):
            type_ = self.type(module, annotation)
            if type_ not in ("object", *OBJECTS):
                yield f"cdef {type_} {name}"

    # ------------------------------------------------------------------ classes

    def _class(self, module: Module, declared: ast.ClassDef) -> Iterator[str]:
        bases = [ast.unparse(base) for base in declared.bases]
        final = not bases
        base = "" if bases in ([], ["Subclassed"]) else f"({', '.join(bases)})"
        if final:
            yield "@cython.final"
        yield f"cdef class {declared.name}{base}:"
        body = list(self._attributes(module, declared, final))
        for each in declared.body:
            if isinstance(each, ast.FunctionDef) and kind_of(each) != "python":
                body += self._function(module, each, declared)
        yield from (f"    {line}" for line in body or ["pass"])

    def attributes(self, module: Module, declared: ast.ClassDef) -> dict[str, ast.expr | ast.stmt]:
        """What hatch_attributes finds, without those of the classes that this one builds on."""
        key = module.name, declared.name
        if key in self._attributes_of:
            return self._attributes_of[key]
        self._attributes_of[key] = {}  # what this one asks of itself, on a way round
        imported = self._imported(module)
        classes = {name for name in (*module.classes, *imported) if self._is_class(module, name)}
        found = attributes(declared, module, classes, self)
        for base in map(ast.unparse, declared.bases):
            of, there = imported.get(base, (module.name, base))
            if base != "Subclassed":
                theirs = self.attributes(self.modules[of], self.modules[of].classes[there])
                found = {name: annotation for name, annotation in found.items() if name not in theirs}
        self._attributes_of[key] = found
        return found

    def _attributes(self, module: Module, declared: ast.ClassDef, final: bool) -> Iterator[str]:
        for twice, why in said_twice(declared):
            raise module.wrong(twice, why)
        for name, annotation in self.attributes(module, declared).items():
            if isinstance(annotation, ast.stmt):
                raise module.wrong(annotation, f"its value does not say what self.{name} is: self.{name}: int = ...")
            seen = marker(annotation)
            if seen not in SEEN:
                seen = "" if name.startswith("_") else "readonly" if final else "public"
            type_ = self.type(module, inside(annotation, *SEEN))
            yield f"cdef {seen + ' ' if seen and type_ != POINTER else ''}{type_} {name}"

    # ------------------------------------------------------------------ functions

    def _function(self, module: Module, function: ast.FunctionDef, of: ast.ClassDef | None) -> Iterator[str]:
        """`cpdef` where Python calls it too: its name is public, and the class is not one that others build on."""
        kind = kind_of(function)
        called_by_python = not function.name.startswith("_") and (of is None or not of.bases)
        given_back = self._given_back(module, function)
        how = {"": " noexcept nogil", "with_gil": " noexcept with gil", "may_raise": ""}[kind]
        if kind == "may_raise" and given_back == SCALARS["int"]:
            # Cython writes no valid C for `long long` here.
            given_back, how = "Py_ssize_t", " except? -2"
        if locals_ := self._locals(module, function, kind):
            yield f"@cython.locals({', '.join(f'{name}={type_}' for name, type_ in locals_.items())})"
        arguments = ", ".join(self._arguments(module, function, of is not None))
        space = "" if given_back == POINTER else " "
        yield f"{'cpdef' if called_by_python else 'cdef'} {given_back}{space}{function.name}({arguments}){how}"

    def _given_back(self, module: Module, function: ast.FunctionDef) -> str:
        kind, annotation = kind_of(function), inside(function.returns, *KINDS)
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return "object" if kind == "may_raise" else "void"
        found = self.type(module, annotation)
        if found == "object" and not kind:
            raise module.wrong(function, f"{function.name} gives back {ast.unparse(annotation or function)}: no C type")
        return "object" if kind == "may_raise" and found in OBJECTS else found

    def _arguments(self, module: Module, function: ast.FunctionDef, method: bool) -> Iterator[str]:
        arguments = function.args
        if arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
            raise module.wrong(function, f"{function.name} has arguments that C has not")
        first_default = len(arguments.args) - len(arguments.defaults)
        for number, each in enumerate(arguments.args):
            if method and number == 0:
                yield each.arg
                continue
            type_ = self.type(module, each.annotation)
            yield f"{type_}{'' if type_ == POINTER else ' '}{each.arg}{'=*' if number >= first_default else ''}"

    def _locals(self, module: Module, function: ast.FunctionDef, kind: str) -> dict[str, str]:
        """Without the interpreter all of them are numbers. With it those that an annotation says so of."""
        declared = {
            each.target.id: self.type(module, each.annotation)
            for each in ast.walk(function)
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        if not kind:
            arguments = {each.arg for each in function.args.args}
            for each in ast.walk(function):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id not in arguments:
                    declared.setdefault(each.id, SCALARS["int"])
        return {name: _LOCAL.get(type_, type_) for name, type_ in declared.items() if type_ != "object"}

    # ------------------------------------------------------------------ functions with two bodies

    def _c_beside(self, module: Module) -> Iterator[str]:
        """Functions of a header beside the source: `put16` of octets.py is `octets_put16` of octets.h."""
        header = module.path.with_suffix(".h").name
        for raising in (False, True):
            found = [each for each in module.functions.values() if (kind_of(each) == "may_raise") == raising]
            if found:
                yield f'cdef extern from "{header}"{"" if raising else " nogil"}:'
            for each in found:
                arguments = ", ".join(self._arguments(module, each, False))
                given_back = self._given_back(module, each)
                how = " except -1" if raising else ""
                type_ = "Py_ssize_t" if raising else given_back
                yield f'    {type_} {each.name} "{module.path.stem}_{each.name}"({arguments}){how}'

    def _inlined(self, module: Module) -> Iterator[str]:
        """Functions that are handed the address of an object in place of its key in a dictionary."""
        tables = {
            each.target.id: ast.unparse(each.annotation.slice.elts[1])
            for each in module.tree.body
            if isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and isinstance(each.annotation, ast.Subscript)
            and isinstance(each.annotation.slice, ast.Tuple)
        }
        prefix = f"mrc_{module.path.stem}"
        yield "cdef extern from *:"
        yield '    """'
        yield f"    #define {prefix}_address(held) ((long long)(uintptr_t)(held))"
        yield f"    #define {prefix}_held(address) ((void *)(uintptr_t)(address))"
        yield '    """'
        yield f"    long long {prefix}_address(void *held) nogil"
        yield f"    void *{prefix}_held(long long address) nogil"
        for function in module.functions.values():
            arguments = ", ".join(self._arguments(module, function, False))
            given_back = self._given_back(module, function)
            yield f"cdef inline {given_back} {function.name}({arguments}) noexcept nogil:"
            kept = [each for each in function.body if not _is_of_a_table(each, tables)]
            body = ast.unparse(ast.Module(kept, [])).splitlines() or ["pass"]
            items = {ast.unparse(each): self.item(each) for each in self.used_items(module)}
            for line in body:
                for used, item in items.items():
                    line = line.replace(used, item)
                line = re.sub(r"\bid\((\w+)\)", rf"{prefix}_address(<void *>\1)", line)
                for table, held in tables.items():
                    line = re.sub(rf"\b{table}\[(\w+)\]", rf"(<{held}>{prefix}_held(\1))", line)
                yield f"    {line}"


def _attribute(used: ast.expr) -> str:
    """The attribute of which an item is used; "" where this is no such thing."""
    return used.value.attr if isinstance(used, ast.Subscript) and isinstance(used.value, ast.Attribute) else ""


def _is_called(module: Module, name: str) -> bool:
    """Whether compiled code of other modules calls this function as one of C."""
    return module.kind == COMPILED and name in module.functions and not name.startswith("_")


def _is_of_a_table(statement: ast.stmt, tables: dict[str, str]) -> bool:
    """Whether it keeps or forgets an object, which a handle that is an address needs not. So is what documents it."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        return isinstance(target, ast.Subscript) and ast.unparse(target.value) in tables
    if not isinstance(statement, ast.Expr):
        return False
    called = statement.value.func if isinstance(statement.value, ast.Call) else None
    forgets = isinstance(called, ast.Attribute) and called.attr == "pop" and ast.unparse(called.value) in tables
    return forgets or isinstance(statement.value, ast.Constant)
