# SPDX-License-Identifier: BSD-2-Clause
"""The C programs some baselines need, compiled where and when they are needed."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

from mrc.errors import SystemRefused

PROGRAMS = Path(__file__).parent / "programs"
_COMPILERS = ("cc", "gcc", "clang")


def check_compiler(who: str) -> str:
    """The C compiler. Raises SystemRefused, with what to install, when there is none."""
    found = next((path for name in _COMPILERS if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise SystemRefused(errno.ENOENT, f"{who} needs a C compiler: install the packages gcc and libc6-dev")
    return found


def compile_program(source: str | Path, target: Path, who: str, *options: str) -> None:
    """Compile one of `PROGRAMS`, or a file. Raises SystemRefused when there is no compiler, or it fails."""
    command = [
        check_compiler(who),
        "-O2",
        "-Wall",
        "-I",
        str(PROGRAMS),
        str(PROGRAMS / source),
        *options,
        "-o",
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise SystemRefused(errno.ENOEXEC, f"{who} could not be compiled (is libc6-dev installed?): {said}")
