"""How the datapath runs: compiled, or interpreted from the same files (docs/compiled.md).

A module with a `.pxd` beside it is written to be compiled. Where it was, Python finds the shared object before the
source. Here it is decided whether it may: all of these modules run one way or all the other, and shared objects that
were made of other sources than lie here are not used.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final
from zlib import crc32

from mrc.errors import CallerError, SystemRefused
from mrc.records import record

VARIABLE: Final = "MRC_CORE"
COMPILED, INTERPRETED = "compiled", "python"
PACKAGE: Final = Path(__file__).parent
STAMP: Final = PACKAGE / "compiled.json"
# Of a module that is compiled: sources and shared object.
_WATCHED = (".py", ".pxd", ".h", ".so")
# It compiles, and lies beside the package in a checkout only: elsewhere sources do not change.
_MAKER: Final = PACKAGE.parent / "hatch_build.py"
_ROOMS = ("wire", "endpoint", "net")
_ADVICE = "`pip install .` again where a C compiler is (gcc, libc6-dev), or in a checkout tools/build-core"


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
    """The sources that are compiled: those with a `.pxd` beside them that declares more than a C header."""
    return [source for source in _typed(package) if "cdef extern from" not in source.with_suffix(".pxd").read_text()]


def shared_object(source: Path) -> Path:
    """What this interpreter would load in place of a source."""
    return source.with_name(source.stem + EXTENSION_SUFFIXES[0])


def _typed(package: Path) -> Iterator[Path]:
    for room in _ROOMS:
        for declared in sorted((package / room).rglob("*.pxd")):
            if (source := declared.with_suffix(".py")).exists():
                yield source


def digest(package: Path = PACKAGE) -> int:
    """A number that changes with any source a shared object is made of."""
    value = 0
    for source in _typed(package):
        for path in (source, source.with_suffix(".pxd"), source.with_suffix(".h")):
            if path.exists():
                value = crc32(path.read_bytes(), crc32(path.name.encode(), value))
    return value


def seen(package: Path = PACKAGE) -> dict[str, list[int]]:
    """Size and time of all of these and of the shared objects, by path: while none changes, nothing has to be read."""
    found: dict[str, list[int]] = {}
    waiting = [str(package / room) for room in _ROOMS if (package / room).is_dir()]
    while waiting:
        entries = list(os.scandir(waiting.pop()))
        typed = {entry.name.removesuffix(".pxd") for entry in entries if entry.name.endswith(".pxd")}
        for entry in entries:
            if entry.name.partition(".")[0] in typed:
                if entry.name.endswith(_WATCHED):
                    looked = entry.stat()
                    found[entry.path] = [looked.st_size, looked.st_mtime_ns]
            elif entry.name != "__pycache__" and entry.is_dir():
                waiting.append(entry.path)
    return found


def _found() -> Core:
    """What lies here."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return Core(INTERPRETED, "not compiled here", _ADVICE)
    if "digest" not in stamp:  # of a build that failed
        return Core(INTERPRETED, "not compiled here", _ADVICE)
    if stamp.get("for") != sys.implementation.cache_tag:
        return Core(INTERPRETED, f"compiled for {stamp.get('for')}, this is {sys.implementation.cache_tag}", _ADVICE)
    if not _MAKER.exists() or stamp.get("seen") == seen():
        return Core(COMPILED)
    if not all(shared_object(source).exists() for source in modules()):
        return Core(INTERPRETED, "not compiled here", _ADVICE)
    if stamp.get("digest") != digest():
        return Core(INTERPRETED, "compiled from other sources than lie here", _ADVICE)
    return Core(COMPILED)


def choose() -> Core:
    """Decide how this process runs it, once, before any of its modules is imported.

    Raises CallerError for an unknown value of MRC_CORE, SystemRefused where it asks for what is not there.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", COMPILED, INTERPRETED):
        raise CallerError(f"{VARIABLE} is {COMPILED!r} or {INTERPRETED!r}, got {wanted!r}")
    set_so = Core(INTERPRETED, f"{VARIABLE}={INTERPRETED}", f"unset {VARIABLE}")
    core = set_so if wanted == INTERPRETED else _found()
    if wanted == COMPILED and core.kind != COMPILED:
        raise SystemRefused(f"{VARIABLE}={COMPILED}, but the datapath is {core.why}: {core.advice}")
    if core.kind == INTERPRETED:
        sys.meta_path.insert(0, _Interpreted())
    return core


class _Interpreted:
    """Finds the source of a module whose shared object is not to be used: an importlib.abc.MetaPathFinder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(f"{__package__}."):
            return None
        for folder in path:
            source = Path(folder, fullname.rpartition(".")[2]).with_suffix(".py")
            if source.with_suffix(".pxd").exists():
                return spec_from_file_location(fullname, source)
        return None
