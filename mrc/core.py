# SPDX-License-Identifier: BSD-2-Clause
"""How the datapath runs: compiled, or interpreted from the same files (docs/contributing/compiled.md).

A module that says so in its second line is written to be compiled. All that were compiled are in one shared object.
Here it is decided whether Python finds them there or finds the sources: all of these modules run one way or all the
other, and a shared object that was made of other sources than lie here is not used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zlib import crc32

from mrc.errors import CallerError, SystemRefused
from mrc.records import record
from mrc.untrusted import own_json

VARIABLE: Final = "MRC_CORE"
COMPILED, INTERPRETED = "compiled", "python"
PACKAGE: Final = Path(__file__).parent
STAMP: Final = PACKAGE / "compiled.json"
# All compiled modules: a shared object for each would cost every process 10 ms at its start.
OBJECT: Final = PACKAGE / f"_compiled{EXTENSION_SUFFIXES[0]}"
# The second line of a source that compiled code is made of begins so: of a module that is compiled, of one whose
# functions are C in a header beside it, and of one whose functions are copied into those that call them.
COMPILED_HERE, C_BESIDE, INLINED = "# compiled (", "# compiled: C beside it (", "# compiled into its callers ("
# It compiles, and lies beside the package in a checkout only: elsewhere sources do not change.
_MAKER: Final = PACKAGE.parent / "hatch_build.py"
_ROOMS = ("wire", "endpoint", "net", "sim")
_COMPILER = "a C compiler (apt install gcc libc6-dev python3-dev)"
_IN_A_CHECKOUT = f"run tools/build-core; it needs {_COMPILER}"
# pip would take what it built before from its cache.
_INSTALLED = (
    "install the wheel for this Python, or the sdist again: `pip install --no-cache-dir --force-reinstall --no-deps "
    f"mrc-VERSION.tar.gz`; that needs {_COMPILER}"
)


@record(frozen=True, slots=True)
class Core:
    """`kind` is "compiled" or "python". `why` says what keeps it from being compiled and `advice` what to do about it,
    both "" where nothing does."""

    kind: str
    why: str = ""
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.why})" if self.why else self.kind


def modules(package: Path = PACKAGE) -> list[Path]:
    """The sources that are compiled."""
    return [source for source, kind in marked(package) if kind == COMPILED_HERE]


def in_checkout() -> bool:
    """Whether the package lies among its sources. An installed one does not."""
    return _MAKER.exists()


def stamp() -> dict[str, Any]:
    """What the build wrote down: how and of what it compiled, and the names of the modules. Empty without one."""
    try:
        return dict(own_json(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def marked(package: Path = PACKAGE) -> Iterator[tuple[Path, str]]:
    """The sources that compiled code is made of, each with the beginning of its second line."""
    for room in _ROOMS:
        for source in sorted((package / room).rglob("*.py")):
            with source.open(encoding="utf-8") as file:
                file.readline()
                line = file.readline()
            for kind in (COMPILED_HERE, C_BESIDE, INLINED):
                if line.startswith(kind):
                    yield source, kind


def sources(package: Path = PACKAGE) -> list[str]:
    """Where the files lie that a shared object is made of, as seen from the package: sources and C headers."""
    found = [path for source, _ in marked(package) for path in (source, source.with_suffix(".h")) if path.exists()]
    return [str(path.relative_to(package)) for path in found]


def digest(package: Path = PACKAGE) -> int:
    """A number that changes with any of these files."""
    value = 0
    for name in sources(package):
        value = crc32((package / name).read_bytes(), crc32(name.encode(), value))
    return value


def seen(names: Iterable[str]) -> int:
    """A number that changes with size or time of any of these files or of the shared object: while it stays, nothing
    has to be read. A source that is new is not among them: until the next build it runs interpreted."""
    paths = [str(OBJECT), *(f"{PACKAGE}/{name}" for name in names)]
    return crc32("\n".join(map(_size_and_time, paths)).encode())


def _size_and_time(path: str) -> str:
    try:
        looked = os.stat(path)
    except OSError:
        return path
    return f"{path} {looked.st_size} {looked.st_mtime_ns}"


def _judged(built: dict[str, Any]) -> Core:
    """What lies here, by its stamp."""
    advice = _IN_A_CHECKOUT if in_checkout() else _INSTALLED
    if "digest" not in built:  # of a build that failed
        return Core(INTERPRETED, "not compiled here", advice)
    if built.get("for") != sys.implementation.cache_tag:
        return Core(INTERPRETED, f"compiled for {built.get('for')}, this is {sys.implementation.cache_tag}", advice)
    if "modules" not in built or not OBJECT.exists():
        return Core(INTERPRETED, "not compiled here", advice)
    if in_checkout() and built.get("seen") != seen(built.get("sources", ())) and built["digest"] != digest():
        return Core(INTERPRETED, "compiled from other sources than lie here", advice)
    return Core(COMPILED)


def choose() -> Core:
    """Decide how this process runs it, once, before any of its modules is imported.

    Raises CallerError for an unknown value of MRC_CORE, SystemRefused where it asks for what is not there, or where
    Python would find shared objects of an earlier build in place of the sources.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", COMPILED, INTERPRETED):
        raise CallerError(f"{VARIABLE} is {COMPILED!r} or {INTERPRETED!r}, got {wanted!r}")
    set_so = Core(INTERPRETED, f"{VARIABLE}={INTERPRETED}", f"unset {VARIABLE}")
    built = {} if wanted == INTERPRETED else stamp()
    core = set_so if wanted == INTERPRETED else _judged(built)
    if wanted == COMPILED and core.kind != COMPILED:
        raise SystemRefused(f"{VARIABLE}={COMPILED}, but the datapath is {core.why}: {core.advice}")
    if core.kind == COMPILED:
        sys.meta_path.insert(0, _InOneObject(built["modules"]))
    elif any(name.endswith(EXTENSION_SUFFIXES[0]) for name in os.listdir(PACKAGE / "wire")):
        raise SystemRefused(
            f"shared objects of an earlier build lie in {PACKAGE / 'wire'}: tools/build-core removes them"
        )
    return core


class _InOneObject:
    """Finds compiled modules: an importlib.abc.MetaPathFinder."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._object = str(OBJECT)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        # The loader looks for PyInit_ and the last part of the name: no two of these modules have the same last part.
        spec = ModuleSpec(fullname, ExtensionFileLoader(fullname, self._object), origin=self._object)
        spec.has_location = True
        return spec
