# SPDX-License-Identifier: BSD-2-Clause
"""docs/architecture.md names code: every file it links to is there, every class and method it names is defined."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
# Classes and their methods; what begins small there is a program, a field or a package.
_NAME = re.compile(r"`([A-Z]\w+)(?:\.(\w+))?(?:\(\))?`")

_LINKED = re.compile(r"\[`([A-Z]\w+)(?:\.\w+)?`\]\((\S+?\.py)\)")


@cache
def defined() -> dict[str, set[str]]:
    """The classes of mrc, each with its methods, attributes, and those it has from classes of mrc."""
    own: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in sorted((ROOT / "mrc").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            names = own.setdefault(node.name, set())
            bases.setdefault(node.name, []).extend(base.id for base in node.bases if isinstance(base, ast.Name))
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef):
                    names.add(inner.name)
                elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    names.add(inner.attr)
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    names.add(inner.target.id)
    for name in own:
        for base in bases[name]:
            own[name] |= own.get(base, set())
    return own


def links() -> list[str]:
    return sorted({target for target in _LINK.findall(PAGE.read_text()) if "://" not in target})


def names() -> list[tuple[str, str]]:
    return sorted(set(_NAME.findall(PAGE.read_text())))


@pytest.mark.parametrize("target", links())
def test_a_link_leads_somewhere(target: str) -> None:
    assert (PAGE.parent / target).exists()


@pytest.mark.parametrize(("name", "member"), names(), ids=lambda part: part or "whole")
def test_a_name_is_in_the_code(name: str, member: str) -> None:
    assert name in defined()
    assert not member or member in defined()[name]


@pytest.mark.parametrize(("name", "file"), sorted(set(_LINKED.findall(PAGE.read_text()))))
def test_a_linked_name_is_in_that_file(name: str, file: str) -> None:
    defined_there = {
        node.name for node in ast.walk(ast.parse((PAGE.parent / file).read_text())) if isinstance(node, ast.ClassDef)
    }
    assert name in defined_there


def test_the_walk_names_each_step() -> None:
    """From a posted write to its completion, both ends: each step names what does it."""
    steps = re.findall(r"^\d+\. \*\*.*?(?=^\d+\. |^\n|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(steps) >= 12
    of_the_kernel = [step for step in steps if "**Switched.**" in step]
    assert all(_NAME.search(step) for step in steps if step not in of_the_kernel)
