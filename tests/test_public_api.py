# SPDX-License-Identifier: BSD-2-Clause
"""The public interface: docs/api lists it, surface.txt and commands.txt record it, every name of it is explained."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from documentation.docstrings import commented

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))  # where a tool finds what it imports
# What is written into this project's own sources, and so may use all of it.
INSIDE = {"mrc.conformance.script", "mrc.endpoint.responder.received", "mrc.wire.received_batch"}
INSIDE |= {"mrc.layers.endpoint_operations"}
# Modules without an example that runs here: they need root, torch or another end, or the pages have one that runs.
ELSEWHERE = ("mrc.lab", "mrc.torch", "mrc.net", "mrc.rc.node", "mrc.endpoint.work")
ELSEWHERE += ("mrc.conformance", "mrc.control", "mrc.trace", "mrc.capture.check", "mrc.capture.columns")
METHODS = (FunctionType, property, classmethod, staticmethod)
_PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def loaded(name: str) -> ModuleType:
    """A tool as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


public_api = loaded("public-api")


@pytest.fixture(scope="module")
def surface() -> Any:
    return public_api.Surface()


def test_the_recorded_surface_is_the_real_one(surface: Any) -> None:
    found = public_api.differences(list(surface.lines()))
    assert not found, "\n".join([*found, public_api.CHANGED])


def test_the_recorded_commands_are_the_real_ones() -> None:
    found = public_api.differences(list(public_api.commands()), public_api.COMMANDS)
    assert not found, "\n".join([*found, public_api.CHANGED])


def test_what_differs_is_named_and_so_is_what_to_do(surface: Any) -> None:
    now = list(surface.lines())
    (changed,) = [n for n, line in enumerate(now) if line.startswith("  own_addresses(")]
    now[changed] = "  own_addresses(interface: str) -> list[OwnAddress]"
    found = public_api.differences(now)
    assert "-  own_addresses() -> list[OwnAddress]" in found
    assert "+  own_addresses(interface: str) -> list[OwnAddress]" in found
    assert "tools/public-api" in public_api.CHANGED


def imports_of_the_pages() -> Iterator[tuple[str, str, str]]:
    """(page, module, name) of what the docs' programs import from this package; no name for a whole module."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for code in _PYTHON.findall(page.read_text()):
            try:
                tree = ast.parse(code)
            except SyntaxError:  # a session of the interpreter, or a part of a program
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "mrc":
                    yield from ((page.name, node.module, alias.name) for alias in node.names)


def test_the_pages_import_what_is_public(surface: Any) -> None:
    """What users copy is promised to them."""
    offered = {module: {name for name, _ in surface.exported(module)} for module in surface.modules}
    seen = 0
    for page, module, name in imports_of_the_pages():
        if module in INSIDE:
            continue
        seen += 1
        whole = f"{module}.{name}" in offered
        assert name == "*" or whole or name in offered.get(module, ()), f"{page}: {module}.{name} is not public"
    assert seen > 60


def test_members_left_out_exist(surface: Any) -> None:
    """What the page says is the package's own is there: a member that was renamed is promised otherwise."""
    for classes, names in surface.own.items():
        if classes.endswith("*"):
            continue
        found = surface.whole[classes.removeprefix("mrc.")]
        for name in names - {public_api.CONSTRUCTOR}:
            assert name in found.all_members, f"docs/api/README.md: {classes} has no {name}"


def explained(found: Any, name: str) -> bool:
    """Whether a member has a docstring, its own or that of what it overrides."""
    member = found.all_members[name]
    return bool(member.docstring) or any(name in base.members and base.members[name].docstring for base in found.mro())


def test_every_public_name_is_explained(surface: Any) -> None:
    """Modules, classes, functions, and the methods and properties of classes."""
    silent, seen = [], set()
    for module in surface.modules:
        if not surface.module(module).docstring:
            silent.append(module)
        for _, found in surface.exported(module):
            if found is None or not (found.is_class or found.is_function):
                continue
            seen.add(found.path)
            if not found.docstring:
                silent.append(found.path)
            for name, member in surface.members(found) if found.is_class else ():
                target = member.final_target if member.is_alias else member
                said = target.is_function or "property" in target.labels
                if said and not name.startswith("__") and not explained(found, name):
                    silent.append(f"{found.path}.{name}")
    assert not silent, "without a docstring: " + ", ".join(sorted(set(silent)))
    assert len(seen) > 250


def test_every_public_constant_is_explained(surface: Any) -> None:
    """By a comment above or beside it, which the site shows, or by what it is made of: an event has a description."""
    silent, seen = [], 0
    for module in surface.modules:
        for name, found in surface.exported(module):
            if found is None or found.is_class or found.is_function or found.is_module:
                continue
            seen += 1
            made = found.final_target if found.is_alias else found
            lines = made.filepath.read_text(encoding="utf-8").splitlines()
            said = commented(lines, made.lineno, made.endlineno) or str(made.value).startswith("_event(")
            if not (made.docstring or said):
                silent.append(f"{module}.{name}")
    assert not silent, "without a comment: " + ", ".join(silent)
    assert seen > 50


def examples_of(surface: Any, module: str) -> Iterator[doctest.DocTest]:
    """The examples in the docstrings of a module and of what is public in it, with the globals of where they stand."""
    finder, here = doctest.DocTestFinder(recurse=False), importlib.import_module(module)
    yield from finder.find(here, module)
    for name, found in surface.exported(module):
        thing = getattr(here, name)
        if found is None or not (found.is_class or found.is_function):
            continue
        home = importlib.import_module(found.module.path)
        methods = [each for each in vars(thing).values() if isinstance(each, METHODS)] if found.is_class else []
        for each in (thing, *methods):
            yield from finder.find(getattr(each, "__func__", each), f"{module}.{name}", home, globs=dict(vars(home)))


def test_examples_do_what_they_show(surface: Any) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    without = []
    for module in surface.modules:
        if module.startswith("mrc.torch"):
            continue
        found = [each for each in examples_of(surface, module) if each.examples]
        for each in found:
            assert runner.run(each).failed == 0, each.name
        if not found and module != "mrc" and not module.startswith(ELSEWHERE):
            without.append(module)
    assert not without, "no example that runs: " + ", ".join(without)
    assert runner.tries > 60
