"""The public interface: docs/api lists it, surface.txt records it, every name of it is explained."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# What is written into this project's own sources, and so may use all of it.
INSIDE = {"mrc.conformance.script", "mrc.endpoint.responder.received", "mrc.wire.received_batch"}
INSIDE |= {"mrc.layers.endpoint_operations"}
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
