# SPDX-License-Identifier: BSD-2-Clause
"""Compile the C libraries of this package, where there is a C compiler. hatch_build.py and tools/build-core do it.

`libibverbs.so.1` is the endpoint behind libibverbs' names. `lib_mrc.so`, which is `libmrc.so` too, has the names of
mrc.h and passes calls on to it. Nothing but libc is linked.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE, LIB, INCLUDE = HERE / "src", HERE / "lib", HERE / "include"
SONAME = "libibverbs.so.1"
MRC_SONAME, MRC_OTHER_NAME = "lib_mrc.so", "libmrc.so"
# Where Python and the packages are, for a library that does not lie among the packages: not part of a wheel.
PLACES = LIB / "python.txt"
# What they were made of, beside them.
MADE_OF = "made-of.txt"
_FLAGS = ["-std=gnu11", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"]


def compiler() -> list[str]:
    """The C compiler, as a command line. Empty where there is none."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    return command if shutil.which(command[0]) else []


def build_if_needed(target: Path = LIB, command: Sequence[str] | None = None) -> list[Path]:
    """As `build`, where sources, headers, the compiler, Python or this file are not those of the libraries there."""
    command = compiler() if command is None else command
    made, record = [target / name for name in (SONAME, MRC_SONAME, MRC_OTHER_NAME)], target / MADE_OF
    there = all(each.exists() for each in (*made, target / PLACES.name, record))
    return made if there and record.read_text() == _made_of(command) else build(target, command)


def _made_of(command: Sequence[str]) -> str:
    digest = sha256(repr((*command, sys.version_info[:2], sys.base_prefix, sysconfig.get_path("purelib"))).encode())
    for each in sorted(path for path in (*SOURCE.rglob("*"), *INCLUDE.rglob("*"), Path(__file__)) if path.is_file()):
        content = each.read_bytes()
        digest.update(f"{each.name} {len(content)}\n".encode() + content)
    return f"{digest.hexdigest()}\n"


def build(target: Path = LIB, command: Sequence[str] | None = None, options: Sequence[str] = ()) -> list[Path]:
    """Compile into a directory, by this compiler, with these options behind its own. Returns the libraries.

    Raises RuntimeError without a compiler or where it refuses.
    """
    command = compiler() if command is None else command
    if not command:
        raise RuntimeError("there is no C compiler: apt install gcc libc6-dev")
    target.mkdir(exist_ok=True)
    (target / MADE_OF).unlink(missing_ok=True)
    made_of = _made_of(command)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # -Bsymbolic-functions: a process may have another libibverbs, with functions of the same names, before this one.
    verbs_options = [
        f'-DMRC_PYTHON="{version}"',
        f"-Wl,--version-script={SOURCE / 'libibverbs.map'}",
        "-Wl,-Bsymbolic-functions",
        *options,
    ]
    verbs = _compile(command, target / SONAME, sorted(SOURCE.glob("*.c")), verbs_options)
    of_mrc = _compile(command, target / MRC_SONAME, sorted((SOURCE / "lib_mrc").glob("*.c")), options)
    made = (target / MRC_OTHER_NAME).with_suffix(".new")
    shutil.copy2(of_mrc, made)
    other = made.replace(target / MRC_OTHER_NAME)
    (target / PLACES.name).write_text(f"{sys.base_prefix}\n{sysconfig.get_path('purelib')}\n{version}\n")
    (target / MADE_OF).write_text(made_of)
    return [verbs, of_mrc, other]


def _compile(command: Sequence[str], library: Path, sources: Sequence[Path], options: Sequence[str] = ()) -> Path:
    # Programs that run keep the one they have.
    made = library.with_suffix(".new")
    named = [f"-I{INCLUDE}", f"-Wl,-soname,{library.name}", "-ldl"]
    done = subprocess.run(
        [*command, *_FLAGS, *options, *(str(each) for each in sources), *named, "-o", str(made)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} refuses {sources[0].parent}: {done.stderr.strip()}")
    return made.replace(library)


if __name__ == "__main__":
    print(*build(), sep="\n")
