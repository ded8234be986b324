# SPDX-License-Identifier: BSD-2-Clause
"""C programs and the library under sanitizers and valgrind: nothing is found in the library's C code."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_programs import PROGRAMS, compiled, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import HERE, INCLUDE, LIB, build, compiler

pytestmark = runs_programs
CLANG = ["clang", "-DSANITIZED", "-g"]
# What is compiled without the sanitizer synchronizes where it cannot see: it is not listened to.
RACES = "called_from_lib:_compiled.cpython\ncalled_from_lib:libpython3\n"
SANITIZED = [
    ("address", "acknowledges"),
    ("address", "bursts"),
    ("address", "closed"),
    ("address", "ctl_calls"),
    ("address", "ctl_events"),
    ("address", "garbage"),
    ("address", "refusals"),
    ("address", "rings"),
    ("address", "forks"),
    ("address", "mrc_pointers"),
    ("address", "mrc_states"),
    ("thread", "acknowledges"),
    ("thread", "bursts"),
    ("thread", "ctl_events"),
    ("thread", "events"),
    ("thread", "plugin"),
    ("thread", "rings"),
    ("thread", "threads"),
]
WATCHED = ["closed", "garbage", "rings"]  # by valgrind


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The libraries with a sanitizer, built once for each."""

    @functools.cache
    def built(sanitizer: str) -> Path:
        folder = tmp_path_factory.mktemp(sanitizer)
        # A sanitizer sees each access of what is not optimised, and compiling takes half as long.
        build(folder, [*CLANG, f"-fsanitize={sanitizer}"], ["-O0"])
        return folder

    return built


@pytest.mark.skipif(shutil.which("clang") is None, reason="there is no clang: apt install clang")
@pytest.mark.parametrize(("sanitizer", "program"), SANITIZED)
def test_a_sanitizer_finds_nothing(
    libraries: Callable[[str], Path], inside: Inside, tmp_path: Path, directory: str, sanitizer: str, program: str
) -> None:
    by = [*CLANG, f"-fsanitize={sanitizer}"]
    library = libraries(sanitizer)
    made = compiled(PROGRAMS / f"{program}.c", tmp_path, by=by, library=library)
    (tmp_path / "races").write_text(RACES)
    done = run_one(
        inside,
        str(made),
        LD_LIBRARY_PATH=str(library),
        MRC_CONTROL_DIR=directory,
        # Python keeps what it has until the process ends.
        ASAN_OPTIONS="detect_leaks=0",
        TSAN_OPTIONS=f"suppressions={tmp_path / 'races'} ignore_noninstrumented_modules=1",
    )
    assert (done.returncode, done.stdout) == (0, ""), done
    assert "Sanitizer" not in done.stderr


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind: apt install valgrind")
def test_valgrind_finds_nothing_with_the_suppressions_that_are_shipped(inside: Inside, tmp_path: Path) -> None:
    """Several programs in one process, one after another: of each that begins most goes to the imports of Python."""
    watched = ["valgrind", "-q", "--error-exitcode=9", "--fair-sched=yes", f"--suppressions={HERE / 'valgrind.supp'}"]
    parts = []
    for program in WATCHED:
        parts.append(str(tmp_path / f"{program}.o"))
        object_only = [*compiler(), "-g", "-Wall", "-Werror", f"-I{INCLUDE}", "-c", f"-Dmain={program}_main"]
        subprocess.run([*object_only, str(PROGRAMS / f"{program}.c"), "-o", parts[-1]], check=True)
    calls = "".join(f'\tputs("{program}"), wrong |= {program}_main();\n' for program in WATCHED)
    declared = "".join(f"int {program}_main(void);\n" for program in WATCHED)
    together = tmp_path / "together.c"
    together.write_text(
        f"#include <stdio.h>\n{declared}int main(void)\n{{\n\tint wrong = 0;\n{calls}\treturn wrong;\n}}\n"
    )
    made = compiled(together, tmp_path, "-g", *parts)
    done = run_one(inside, *watched, str(made), LD_LIBRARY_PATH=str(LIB), PYTHONMALLOC="malloc")
    assert (done.returncode, done.stdout.split()) == (0, WATCHED), done
    assert "==" not in done.stderr
