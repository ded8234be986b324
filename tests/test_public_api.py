# SPDX-License-Identifier: BSD-2-Clause
"""The public interface: pages use what docs/api lists, examples do what they show, and it is as recorded."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# What is written into this project's own sources, and so may use all of it.
INSIDE = {"mrc.conformance.script", "mrc.endpoint.responder.received", "mrc.wire.received_batch"}
INSIDE |= {"mrc.layers.endpoint_operations"}
METHODS = (FunctionType, property, classmethod, staticmethod)


@pytest.fixture(scope="module")
def tool() -> Iterator[dict[str, Any]]:
    """What tools/public-api defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")  # where it finds what it imports
        yield runpy.run_path(str(ROOT / "tools" / "public-api"))


@pytest.fixture(scope="module")
def surface(tool: dict[str, Any]) -> Any:
    return tool["Surface"]()


def test_it_is_as_recorded_and_each_name_is_explained(
    tool: dict[str, Any], surface: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `tools/public-api --check` looks at it."""
    wrong = tool["is_wrong"](surface)
    assert not wrong, "".join(capsys.readouterr())


def test_the_pages_import_what_is_public(surface: Any) -> None:
    """What users copy is promised to them."""
    offered = {module: {name for name, _ in surface.exported(module)} for module in surface.modules}
    seen = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for code in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            try:
                tree = ast.parse(code)
            except SyntaxError:  # a session of the interpreter, or a part of a program
                continue
            imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            seen |= {(page.name, each.module or "", alias.name) for each in imports for alias in each.names}
    ours = {each for each in seen if each[1].partition(".")[0] == "mrc" and each[1] not in INSIDE}
    assert len(ours) > 40
    public = {each for each in ours if each[2] in ("*", *offered.get(each[1], ())) or f"{each[1]}.{each[2]}" in offered}
    assert ours - public == set()


def examples_of(surface: Any, module: str) -> Iterator[doctest.DocTest]:
    """The examples in the docstrings of a module and of what is public in it, with the globals of where they stand."""
    finder, here = doctest.DocTestFinder(recurse=False), importlib.import_module(module)
    yield from finder.find(here, module)
    for name, found in surface.exported(module):
        if found is not None and (found.is_class or found.is_function):
            thing, home = getattr(here, name), importlib.import_module(found.module.path)
            methods = [each for each in vars(thing).values() if isinstance(each, METHODS)] if found.is_class else []
            for each in (thing, *methods):
                yield from finder.find(
                    getattr(each, "__func__", each), f"{module}.{name}", home, globs=dict(vars(home))
                )


def test_examples_do_what_they_show(surface: Any) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for module in surface.modules:
        for each in examples_of(surface, module) if not module.startswith("mrc.torch") else ():
            assert runner.run(each).failed == 0, each.name
    assert runner.tries > 60
