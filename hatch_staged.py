# SPDX-License-Identifier: BSD-2-Clause
"""What Cython reads, in a folder of the build: the sources that are compiled and a `.pxd` beside each.

A source there has its lines where they are in the package, without the annotations that hatch_declarations.py has read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from hatch_constants import Place, end, start
from hatch_declarations import Declarations
from hatch_sources import COMPILED, KINDS, Module, inside, marker

MARKERS, FUTURE = "mrc.wire.compiled", b"from __future__ import annotations"


def write(root: Path, marked: Iterable[tuple[Path, str]], to: Path) -> tuple[dict[str, Path], list[str]]:
    """Write what changed, and take out what is of no source any more. `marked` are the sources of the package in `root`
    and the beginnings of their second lines. Returns the names of the compiled modules and their files here, and which
    sources of Python's said what is in them. Raises hatch_sources.Unknown."""
    declarations, made, kept = Declarations(root, marked), {}, set[Path]()
    for name, module in declarations.modules.items():
        source = to / module.path.relative_to(root)
        for folder in source.parents:
            if to in folder.parents:
                kept |= _write(folder / "__init__.py", "")
        kept |= _write(source.with_suffix(".pxd"), declarations.of(module))
        if module.kind == COMPILED:
            kept |= _write(source, staged(module, declarations))
            made[name] = source
    for path in to.rglob("*.p*"):
        if path.suffix in (".py", ".pxd") and path not in kept:
            path.unlink()
    return made, declarations.said_by()


def _write(path: Path, text: str) -> set[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return {path}


def staged(module: Module, declarations: Declarations) -> str:
    """The source that is compiled. Its slots stand there in words, and what C does to an object of a list."""
    lines = [line.encode() for line in module.text.splitlines()]
    # The fields of a record stay: it is Python's.
    records = [each for each in module.tree.body if isinstance(each, ast.ClassDef) and each.name not in module.classes]
    left = {each for record in records for each in record.body}
    for each in ast.walk(module.tree):
        if each in left:
            continue
        if isinstance(each, ast.AnnAssign) and each.value is None:
            _blank(lines, start(each), end(each))
        elif isinstance(each, ast.AnnAssign):
            _blank(lines, end(each.target), end(each.annotation))
        elif isinstance(each, ast.ImportFrom) and each.module == MARKERS:
            _blank(lines, start(each), end(each))
        elif isinstance(each, ast.FunctionDef) and each.returns is not None and marker(each.returns) in KINDS:
            # It would be in the text of the function's documentation.
            given_back = inside(each.returns, *KINDS)
            assert given_back is not None
            _blank(lines, end(given_back), end(each.returns))
            _blank(lines, start(each.returns), start(given_back))
    for declared in module.classes.values():
        for base in declared.bases:
            if ast.unparse(base) == "Subclassed":
                _blank(lines, start(base), end(base))
    items = sorted(declarations.used_items(module), key=start, reverse=True)
    for used in items:
        text, (_, begin), (_, finish) = lines[used.lineno - 1], start(used), end(used)
        lines[used.lineno - 1] = text[:begin] + declarations.item(used).encode() + text[finish:]
    if items:
        lines[lines.index(FUTURE)] += b"; import cython"
    return "\n".join(line.decode() for line in lines) + "\n"


def _blank(lines: list[bytes], begin: Place, finish: Place) -> None:
    for number in range(begin[0], finish[0] + 1):
        text = lines[number - 1]
        left = begin[1] if number == begin[0] else 0
        right = min(finish[1], len(text)) if number == finish[0] else len(text)
        lines[number - 1] = (text[:left] + b" " * (right - left) + text[right:]).rstrip()
